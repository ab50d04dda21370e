import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// A random sequence of faults against a cluster under constant load, and then a check that nothing was lost.
public struct ChaosRun: Sendable {
    /// Options that determine the run.
    public struct Options: Sendable {
        public var seed: UInt64
        public var duration: Duration
        /// The program `megaton`.
        public var program: String
        /// Directory for lists, ledgers, outputs and histories; must be empty.
        public var directory: String
        /// Whether rates are measured and judged too, for which the machine must have nothing else to do.
        public var judgesPace: Bool

        public init(
            seed: UInt64,
            duration: Duration,
            program: String,
            directory: String,
            judgesPace: Bool = true
        ) {
            self.seed = seed
            self.duration = duration
            self.program = program
            self.directory = directory
            self.judgesPace = judgesPace
        }
    }

    /// The result: lines for people, and violations.
    public struct Report: Sendable {
        public let lines: [String]
        public let violations: [String]
    }

    private let options: Options

    /// Limit after each kill: a dead worker's leases must be free after the lease's length and a second.
    private static let longestRecovery: Duration = .seconds(ChaosCluster.lease + 1)
    /// Faults between two rests, in which the load goes on and no fault is injected.
    private static let faultsBeforeRest = 6
    /// As long as processes need to connect again, and as jobs may stand still (``PaceWatch``), together.
    private static let rest: Duration = .seconds(30)
    /// Time between two measurements of the pace.
    private static let phase: Duration = .seconds(300)
    /// A job may be claimed as soon as it is due by the clock of Redis, which counts in milliseconds.
    private static let clockStep = 2

    public init(_ options: Options) { self.options = options }

    public func run() async throws -> Report {
        let stage = Stage(program: options.program, directory: options.directory)
        let cluster = try await ChaosCluster(stage, ChaosPlan(seed: options.seed))
        let load = ChaosLoad(
            program: options.program,
            control: cluster.controlProxy.url,
            origin: cluster.origin.server.url("/"),
            hosts: cluster.hosts,
            directory: options.directory,
            seed: options.seed
        )
        // The shards of the whole run: those that are not there yet are empty.
        let queues = (0..<cluster.plan.laterShards).map { QueueView(redis: cluster.client, shard: $0).queue }
        let watch = PaceWatch(queues, places: cluster.plan.places, faults: cluster.faults)
        var meter = PaceMeter(cluster, stage: stage, watch: watch)
        var nemesis = Nemesis(cluster, stage: stage, seed: options.seed)
        var result = ScenarioResult()
        load.pause()
        // All awaited below, on every way out.
        let submitting = (0..<ChaosLoad.submitters).map { number in Task { try await load.run(number) } }
        let watching = Task { if options.judgesPace { await watch.run() } }
        do {
            try await injectFaults(&nemesis, load, &meter, cluster, stage)
        } catch {
            result.add(violations: ["the run broke off: \(error)"])
        }
        cluster.heal()
        load.stop()
        for task in submitting {
            if case .failure(let error) = await task.result {
                result.add(violations: ["a submitter broke off: \(error)"])
            }
        }
        watch.stop()
        await watching.value
        do {
            try await judge(cluster, &result)
        } catch {
            result.add(violations: ["the queue could not be looked at: \(error)"])
        }
        let evicted = await cluster.evictions(stage)
        result.add(violations: await cluster.stop())
        notePace(cluster.plan, watch, meter, &result)
        try conclude(cluster, nemesis, load.result, evicted: evicted, &result)
        return Report(lines: result.figures, violations: result.violations)
    }

    /// Injects faults while the load runs, and measures the pace before them, every five minutes, and after them.
    private func injectFaults(
        _ nemesis: inout Nemesis,
        _ load: ChaosLoad,
        _ meter: inout PaceMeter,
        _ cluster: ChaosCluster,
        _ stage: Stage
    ) async throws {
        if options.judgesPace { try await meter.measure("before the faults") }
        load.resume()
        var left = options.duration
        while left > .zero {
            let phase = min(left, Self.phase)
            try await injectFaults(&nemesis, for: phase, stage)
            left -= phase
            cluster.heal()
            load.pause()
            if options.judgesPace {
                try await meter.measure("after \(Stage.seconds(options.duration - left)) of faults")
            }
            if left <= .zero { break }
            if cluster.shards < cluster.plan.laterShards {
                try await cluster.reshard(to: cluster.plan.laterShards, stage)
                load.beginEra()
            }
            load.resume()
        }
    }

    private func injectFaults(_ nemesis: inout Nemesis, for time: Duration, _ stage: Stage) async throws {
        let end = stage.clock.now + time
        var count = 0
        while stage.clock.now < end {
            try await nemesis.strike()
            count += 1
            if options.judgesPace && count.isMultiple(of: Self.faultsBeforeRest) {
                try await stage.clock.sleep(until: min(end, stage.clock.now + Self.rest))
            }
        }
    }

    private func notePace(
        _ plan: ChaosPlan,
        _ watch: PaceWatch,
        _ meter: PaceMeter,
        _ result: inout ScenarioResult
    ) {
        result.note(
            "places of the workers \(plan.workers.map(\.places)), shards \(plan.shards), then \(plan.laterShards)"
        )
        if !options.judgesPace { return }
        for figure in meter.figures { result.note(figure) }
        result.note(
            "ready jobs beside a free place \(watch.watched) times; the longest interval without a completed job then "
                + Stage.seconds(watch.longest)
        )
        result.add(violations: (meter.violations + watch.violations).map { "seed \(options.seed), \($0)" })
    }

    /// Checks Redis while all processes still run.
    private func judge(_ cluster: ChaosCluster, _ result: inout ScenarioResult) async throws {
        for view in cluster.views {
            let (queue, shard) = (view.queue, view.shard)
            for summary in try await queue.batches(limit: 10_000) {
                let counters = summary.counters
                result.require(counters.isFinished, "I1: batch \(summary.name) has not ended in shard \(shard)")
                result.require(
                    counters.ended == counters["total"] && counters["total"] == counters["submitted"],
                    "I6: batch \(summary.name) in shard \(shard): \(counters.ended) ended, "
                        + "\(counters["total"]) in all, \(counters["submitted"]) submitted"
                )
            }
            let report = try await QueueAudit(queue: queue).run(repair: false)
            result.require(report.faults.isEmpty, "I3: \(report.examples.map { "\($0)" }.joined(separator: "; "))")
            result.require(try await queue.alive() == 0, "I1: jobs are left over in shard \(shard)")
        }
    }

    private func conclude(
        _ cluster: ChaosCluster,
        _ nemesis: Nemesis,
        _ load: ChaosLoad.Result,
        evicted: Int?,
        _ result: inout ScenarioResult
    ) throws {
        result.require(evicted != nil, "the cache Redis did not report its evictions")
        result.add(violations: load.violations)
        result.add(violations: nemesis.complaints)
        let history = try HistoryChecker(cluster.fleet.histories)
        result.add(violations: history.violations.map { "I2, I4: \($0)" })
        for (group, count) in load.runs {
            result.require(count <= 1, "I2: of the jobs \(group), of which one is to be run, \(count) were")
            // A batch that could not begin may have had the job.
            result.require(count >= 1 || load.refused > 0, "I1: of the jobs \(group) none was run")
        }
        for (id, notBefore) in load.delayed {
            guard let claim = history.firstClaim[id] else { continue }
            result.require(
                claim >= notBefore - Self.clockStep,
                "\(id) was claimed \(notBefore - claim) ms before its time"
            )
        }
        // Each request to an origin needs a flight of its own; each flight but the first of a key needs a reason.
        result.require(
            history.fetches <= history.landed + history.expired + history.failed + history.unlocked,
            "I5: \(history.fetches) fetches, \(history.landed) flights landed, \(history.expired) expired, "
                + "\(history.failed) failed, \(history.unlocked) were led without a lock"
        )
        result.require(
            history.madeAgain <= (evicted ?? 0) || nemesis.cacheLosses > 0,
            "I5: \(history.madeAgain) originals were fetched again although they had landed and the cache lost nothing "
                + "but \(evicted ?? 0) evicted keys; the first are \(history.keysMadeAgain.prefix(5))"
        )
        for recovery in nemesis.recoveries {
            result.require(recovery <= Self.longestRecovery, "a kill took \(Stage.seconds(recovery)) to recover from")
        }
        result.note("seed \(options.seed), \(Stage.seconds(options.duration)) of faults")
        result.note(
            "batches \(load.batches) (\(load.refused) could not begin), jobs \(load.jobs): \(load.done) done, "
                + "\(load.failed) failed, \(load.deduplicated) deduplicated, \(load.delayed.count) delayed"
        )
        result.note("claims \(history.claims), ends refused \(history.refused), lines cut by kills \(history.torn)")
        result.note(
            "fetches \(history.fetches): flights landed \(history.landed) (\(history.madeAgain) again after a loss), "
                + "expired \(history.expired), failed \(history.failed), without a lock \(history.unlocked)"
        )
        if let longest = nemesis.recoveries.max() {
            result.note("recoveries \(nemesis.recoveries.count), the longest \(Stage.seconds(longest))")
        }
        result.note("processes that found no Redis when they started, and were started again: \(nemesis.startedAgain)")
        for (fault, count) in nemesis.counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            result.note("\(count) x \(fault.rawValue)")
        }
    }
}
