import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 9: every connection is killed each second for a minute. No job is lost, and throughput stays above a half.
struct Cuts: Scenario {
    static let name = "cuts"
    static let summary = "CLIENT KILL of all connections each second for a minute: more than half of the throughput"

    private static let calm = 20
    private static let cut = 60
    private static let batch = "cuts"
    /// More than can be done in that time; the rest is cancelled.
    private static let jobs = 40_000

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SmallCluster.run(stage) { cluster, result in
            let image = TestImage.quarters(width: 64, height: 64)
            let origin = try await OriginServer.start(delay: .milliseconds(100)) { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: 2, stage)
            try await push(origin, cluster)
            let before = try await done(in: Self.calm, cluster, stage) {}
            let during = try await done(in: Self.cut, cluster, stage) {
                for type in ["normal", "pubsub"] {
                    try await cluster.client.send(["CLIENT", "KILL", "TYPE", .string(type), "SKIPME", "yes"])
                }
            }
            let part = during / max(before, 1)
            result.note(
                String(format: "%.0f jobs a second before, %.0f while all connections were cut", before, during)
            )
            result.require(part > 0.5, "no more than \(Int(part * 100)) % of the throughput")
            try await cluster.view.queue.cancel(batch: Self.batch)
            let ended = try await stage.wait(atMost: .seconds(60)) {
                try await cluster.view.batch(Self.batch).isFinished
            }
            result.require(ended != nil, "the batch did not end")
            let counters = try await cluster.view.batch(Self.batch)
            result.note("\(counters["done"]) done, \(counters["failed"]) failed, \(counters["cancelled"]) cancelled")
            result.require(
                counters.ended == Self.jobs && counters["total"] == Self.jobs && counters["failed"] == 0,
                "the counters do not add up to \(Self.jobs)"
            )
        }
    }

    private func push(_ origin: OriginServer, _ cluster: SmallCluster) async throws {
        let submitter = BatchSubmitter(queue: cluster.view.queue, batch: Self.batch)
        for number in 0..<Self.jobs {
            let job = Job(
                id: "c\(number)",
                source: origin.url("/\(number).png").absoluteString,
                renditions: Job.defaultRenditions,
                batch: Self.batch
            )
            try await submitter.add(job.json())
        }
        try await submitter.close()
    }

    /// Throughput in jobs per second over the given seconds, with an action each second.
    private func done(
        in seconds: Int,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ each: () async throws -> Void
    ) async throws -> Double {
        let before = try await cluster.view.done()
        for _ in 0..<seconds {
            try await each()
            try await stage.clock.sleep(for: .seconds(1))
        }
        return Double(try await cluster.view.done() - before) / Double(seconds)
    }
}
