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

        public init(seed: UInt64, duration: Duration, program: String, directory: String) {
            self.seed = seed
            self.duration = duration
            self.program = program
            self.directory = directory
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
    private static let submitters = 2

    public init(_ options: Options) { self.options = options }

    public func run() async throws -> Report {
        let stage = Stage(program: options.program, directory: options.directory)
        let cluster = try await ChaosCluster(stage)
        let load = ChaosLoad(
            program: options.program,
            control: cluster.controlProxy.url,
            origin: cluster.origin.server.url("/"),
            directory: options.directory
        )
        var nemesis = Nemesis(cluster, stage: stage, seed: options.seed)
        var result = ScenarioResult()
        let submitting = (0..<Self.submitters).map { number in
            // Awaited below, on every way out.
            Task { try await load.run(number) }
        }
        do {
            let end = stage.clock.now + options.duration
            while stage.clock.now < end { try await nemesis.strike() }
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
        do {
            try await judge(cluster, &result)
        } catch {
            result.add(violations: ["the queue could not be looked at: \(error)"])
        }
        result.add(violations: await cluster.stop())
        try conclude(cluster, nemesis, load.result, &result)
        return Report(lines: result.figures, violations: result.violations)
    }

    /// Checks Redis while all processes still run.
    private func judge(_ cluster: ChaosCluster, _ result: inout ScenarioResult) async throws {
        let queue = JobQueue(cluster.client, keys: QueueKeys())
        for summary in try await queue.batches(limit: 10_000) {
            let counters = summary.counters
            result.require(counters.isFinished, "I1: batch \(summary.name) has not ended")
            result.require(
                counters.ended == counters["total"] && counters["total"] == counters["submitted"],
                "I6: batch \(summary.name): \(counters.ended) ended, \(counters["total"]) in all, "
                    + "\(counters["submitted"]) submitted"
            )
        }
        let report = try await QueueAudit(queue: queue).run(repair: false)
        result.require(report.faults.isEmpty, "I3: \(report.examples.map { "\($0)" }.joined(separator: "; "))")
        result.require(try await queue.alive() == 0, "I1: jobs are left over")
    }

    private func conclude(
        _ cluster: ChaosCluster,
        _ nemesis: Nemesis,
        _ load: ChaosLoad.Result,
        _ result: inout ScenarioResult
    ) throws {
        result.add(violations: load.violations)
        result.add(violations: nemesis.complaints)
        let history = try HistoryChecker(cluster.fleet.histories)
        result.add(violations: history.violations.map { "I2, I4: \($0)" })
        // Each request to an origin needs a flight of its own; each flight but the first of a key needs a reason.
        result.require(
            history.fetches <= history.landed + history.expired + history.failed + history.unlocked,
            "I5: \(history.fetches) fetches, \(history.landed) flights landed, \(history.expired) expired, "
                + "\(history.failed) failed, \(history.unlocked) were led without a lock"
        )
        result.require(
            history.madeAgain == 0 || nemesis.cacheLosses > 0,
            "I5: \(history.madeAgain) originals were fetched again although they had landed and the cache lost nothing"
        )
        for recovery in nemesis.recoveries {
            result.require(recovery <= Self.longestRecovery, "a kill took \(Stage.seconds(recovery)) to recover from")
        }
        result.note("seed \(options.seed), \(Stage.seconds(options.duration)) of faults")
        result.note(
            "batches \(load.batches) (\(load.refused) could not begin), jobs \(load.jobs): \(load.done) done, \(load.failed) failed"
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
