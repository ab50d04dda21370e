import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// One picture at a slow origin that nobody has yet, and many jobs for it at once.
struct ColdKey {
    static let workers = 50
    static let jobs = 500
    static let batch = "b"
    /// Of each worker: all jobs are in hand at the same time.
    static let arguments = ["--concurrency", String(jobs / workers)]

    /// How long a coordinator may take to learn how many places the workers have.
    private static let settling: Duration = .seconds(2)

    private let log: RequestLog
    private let origin: OriginServer

    /// Nobody asked the origin within its time.
    struct NotAsked: Error {}

    init() async throws {
        let log = RequestLog()
        let image = TestImage.quarters(width: 200, height: 200)
        origin = try await OriginServer.start(delay: .seconds(2)) { _ in
            log.note()
            return .image(image)
        }
        self.log = log
    }

    func stop() { origin.stop() }

    /// How often the origin was asked.
    var requests: Int { origin.total }

    /// Starts the workers, and pushes all jobs to the public list in one round trip once all have signed on.
    func push(_ cluster: SmallCluster, _ stage: Stage) async throws {
        try await cluster.start(workers: Self.workers, stage)
        try await stage.clock.sleep(for: Self.settling)
        let source = origin.url("/cold.png").absoluteString
        let commands = (0..<Self.jobs).map { number in
            let job = Job(
                id: "cold.\(number)",
                source: source,
                renditions: [Rendition(width: 100, height: 100)],
                batch: Self.batch
            )
            return RedisCommand(["LPUSH", "megaton:{default}:jobs", .buffer(ByteBuffer(bytes: job.json()))])
        }
        for case .error(let text) in try await cluster.client.pipeline(commands) { throw RedisError(reply: text) }
    }

    /// When the origin was asked first; waits for that.
    func firstRequest(_ stage: Stage) async throws -> ContinuousClock.Instant {
        _ = try await stage.wait(atMost: .seconds(30)) { log.first != nil }
        guard let first = log.first else { throw NotAsked() }
        return first
    }
}
