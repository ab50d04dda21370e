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

    func run(_ stage: Stage) async throws -> Verdict {
        try await SmallCluster.run(stage) { cluster, verdict in
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
            try await step(cluster, stage)
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

    /// What a minute ahead means to everything that Redis keeps by its clock: each deadline comes a minute sooner.
    /// (libfaketime, which could move the clock itself, does not get along with Redis' allocator.)
    private func step(_ cluster: SmallCluster, _ stage: Stage) async throws {
        for key in [stage.lease, "megaton:{default}:delay"] {
            let fields = try await cluster.client.send(["ZRANGE", .string(key), "0", "-1", "WITHSCORES"]).array ?? []
            for index in stride(from: 0, to: fields.count - 1, by: 2) {
                guard let id = fields[index].string, let deadline = fields[index + 1].int else { continue }
                try await cluster.client.send(["ZADD", .string(key), "XX", .int(deadline - 60_000), .string(id)])
            }
        }
        try await cluster.client.send(["DEL", "megaton:{default}:leader"])
    }
}
