import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 6: codecs that keep every core busy for seconds at a time do not cost any job its lease.
struct Soak: Scenario {
    static let name = "busy-decoder"
    static let summary = "every core renders large images for a minute: no lease is lost"

    private static let batch = "busy"
    private static let length: Duration = .seconds(60)
    /// More than can be done in that time.
    private static let jobs = 500
    /// Pixels of the source's sides, and of the largest rendition's.
    private static let side = 3200
    private static let largest = 3000

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        options.cache = ["maxmemory 512mb", "maxmemory-policy allkeys-lru"]
        // Of a repeated option the last one counts; the fleet's own sets one thread.
        options.workerArguments = ["--render-threads", "2", "--concurrency", "4"]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let source = try Self.source(cluster.fleet.outputs)
            try await cluster.start(workers: 2, stage)
            try await push(source, cluster)
            try await stage.clock.sleep(for: Self.length)
            let rendered = try await cluster.view.batch(Self.batch)["renders"]
            // Running jobs are stopped at their worker's next heartbeat.
            try await cluster.view.queue.cancel(batch: Self.batch)
            _ = try await stage.wait(atMost: .seconds(30)) { try await cluster.view.queue.alive() == 0 }
            // Counters of leases are complete when the workers have ended.
            result.add(violations: await cluster.endFleet())
            let stat = try await cluster.view.stat()
            let leases = LeaseCounters(stat)
            result.note("\(rendered) renders in \(Stage.seconds(Self.length)), \(stat["failed"] ?? 0) failed")
            result.note(leases.text)
            result.require(rendered > 0, "nothing was rendered: that proves nothing")
            result.require(leases.areZero, "leases were lost")
        }
    }

    /// Writes an image that is expensive to encode to a folder that the workers may read.
    ///
    /// - Returns: its URL.
    private static func source(_ directory: String) throws -> String {
        let image = TestImage.png(width: side, height: side) { x, y in
            let noise = UInt8(truncatingIfNeeded: ((x &* 73_856_093) ^ (y &* 19_349_663)) >> 5)
            return (noise, UInt8(truncatingIfNeeded: x), UInt8(truncatingIfNeeded: y), 255)
        }
        let path = "\(directory)/large.png"
        try image.write(to: URL(fileURLWithPath: path))
        return "file://\(path)"
    }

    /// Pushes jobs with distinct sizes, so that no result is found in the cache.
    private func push(_ source: String, _ cluster: SmallCluster) async throws {
        let commands = (0..<Self.jobs).map { number in
            let side = Self.largest - number
            let job = Job(
                id: "busy.\(number)",
                source: source,
                renditions: [Rendition(width: side, height: side, format: .webp)],
                batch: Self.batch
            )
            return RedisCommand(["LPUSH", "megaton:{default}:jobs", .buffer(ByteBuffer(bytes: job.json()))])
        }
        for case .error(let text) in try await cluster.client.pipeline(commands) { throw RedisError(reply: text) }
    }
}
