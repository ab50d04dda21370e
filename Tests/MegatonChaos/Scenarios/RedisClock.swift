import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 25, second half: the clock of the control Redis' host jumps a minute ahead. Leases run out at once, their jobs run
/// again, and the counts are exact.
struct RedisClock: Scenario {
    static let name = "redis-clock"
    static let summary = "the clock of the control Redis jumps a minute ahead: jobs run again, counts are exact"

    private static let batch = "clock"
    private static let jobs = 100

    private static let step: Int64 = 60_000

    func run(_ stage: Stage) async throws -> Verdict {
        let clock = "\(stage.directory)/redis-clock"
        try FaultLibrary.setClock(clock, aheadBy: 0)
        var options = SmallCluster.Options()
        options.controlEnvironment = FaultLibrary.steppingClock(clock)
        return try await SmallCluster.run(stage, options) { cluster, verdict in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start(delay: .seconds(2)) { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: 2, stage)
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
            _ = try await stage.wait(atMost: .seconds(60)) { try await cluster.view.done() > Self.jobs / 4 }
            let before = try await Self.time(cluster.client)
            try FaultLibrary.setClock(clock, aheadBy: Self.step)
            let jump = try await Self.time(cluster.client) - before
            verdict.note("Redis' TIME jumped by \(jump) s")
            verdict.require(jump >= Self.step / 1000, "the clock of Redis did not jump: that proves nothing")
            let ended = try await stage.wait(atMost: .seconds(120)) {
                try await cluster.view.batch(Self.batch).isFinished
            }
            verdict.require(ended != nil, "the batch did not end")
            let counters = try await cluster.view.batch(Self.batch)
            verdict.complain(await cluster.endFleet())
            let stat = try await cluster.view.stat()
            verdict.note(
                "\(counters["done"]) of \(Self.jobs) done; \(stat["stalled"] ?? 0) leases ran out, "
                    + "\(QueueView.late(stat)) ends were refused as late"
            )
            verdict.require(stat["stalled"] ?? 0 > 0, "no lease ran out: nothing was running")
            verdict.require(
                counters["done"] == Self.jobs && counters["total"] == Self.jobs,
                "the counters are not those of \(Self.jobs) jobs"
            )
        }
    }

    /// Seconds of Redis' own clock.
    private static func time(_ redis: RedisClient) async throws -> Int64 {
        Int64(try await redis.send(["TIME"]).array?.first?.int ?? 0)
    }
}
