import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 25, second half: the clock of the control Redis' host jumps a minute ahead. Leases expire at once, their jobs
/// run again, and the counts are exact.
struct RedisClock: Scenario {
    static let name = "redis-clock"
    static let summary = "the clock of the control Redis jumps a minute ahead: jobs run again, counts are exact"

    private static let batch = "clock"
    private static let jobs = 100
    private static let workers = 2
    /// Slots of each worker.
    private static let concurrency = 16
    /// Jump in milliseconds.
    private static let step = 60_000

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let clock = "\(stage.directory)/redis-clock"
        try FaultLibrary.setClock(clock, aheadBy: 0)
        var options = SmallCluster.Options()
        options.controlEnvironment = try FaultLibrary.steppingClock(clock)
        options.workerArguments = ["--concurrency", String(Self.concurrency)]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start(delay: .seconds(2)) { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: Self.workers, stage)
            try await submit(origin, cluster)
            try await stage.reach("a fleet at work", within: .seconds(60)) {
                try await cluster.view.done() > Self.jobs / 4
            }
            let before = try await Stage.time(cluster.client)
            try FaultLibrary.setClock(clock, aheadBy: Int64(Self.step))
            let jump = try await Stage.time(cluster.client) - before
            result.note("Redis' TIME jumped by \(jump) ms")
            result.require(jump >= Self.step, "the clock of Redis did not jump: that proves nothing")
            let ended = try await stage.wait(atMost: .seconds(120)) {
                try await cluster.view.batch(Self.batch).isFinished
            }
            result.require(ended != nil, "the batch did not end")
            try await judge(cluster, &result)
        }
    }

    private func submit(_ origin: OriginServer, _ cluster: SmallCluster) async throws {
        let submitter = BatchSubmitter(queue: cluster.view.queue, batch: Self.batch)
        for number in 0..<Self.jobs {
            let job = Job(
                id: "r\(number)",
                source: origin.url("/\(number).png").absoluteString,
                renditions: Job.defaultRenditions,
                batch: Self.batch
            )
            try await submitter.add(job.json())
        }
        try await submitter.close()
    }

    private func judge(_ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        let counters = try await cluster.view.batch(Self.batch)
        result.requireDone(Self.jobs, of: Self.batch, counters)
        let dead = try await cluster.view.dead()
        result.require(dead == 0, "\(dead) jobs are dead")
        result.add(violations: try await cluster.view.misplaced())
        // Counters of leases and the last lines of the histories are complete when the workers have ended.
        result.add(violations: await cluster.endFleet())
        let leases = try await cluster.view.leases()
        let history = try HistoryChecker(cluster.fleet.histories)
        let claims = history.claimsByJob.values
        result.note("\(counters["done"]) of \(Self.jobs) done; \(leases.text)")
        result.note("\(claims.count { $0 > 1 }) jobs claimed again, \(claims.max() ?? 0) claims of a job at the most")
        result.add(violations: history.violations)
        result.require(leases.stalled > 0, "no lease ran out: nothing was running")
        // A second round of expired leases, or leases of jobs claimed after the jump, would exceed the number of slots.
        let places = Self.workers * Self.concurrency
        result.require(leases.stalled <= places, "\(leases.stalled) leases ran out, of \(places) that there were")
        result.require(claims.count == Self.jobs, "the histories have claims of \(claims.count) jobs")
        result.require(claims.allSatisfy { $0 <= 2 }, "a job was claimed \(claims.max() ?? 0) times: not once again")
    }
}
