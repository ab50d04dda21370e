import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

/// Images that take long to arrive, and a whole worker on its own Redis.
@Suite(.timeLimit(.minutes(2))) struct LongFetchTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// A body whose first bytes arrive at once, and that does not end.
    private static let endless = OriginServer.Answer(
        headers: [("Content-Type", "image/png")],
        body: Data([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
        announcedLength: 60_000_000,
        stream: OriginStream(piece: Data(count: 2048), interval: .milliseconds(100))
    )

    private func withWorker(
        _ change: (inout Worker.Configuration) -> Void,
        _ answer: @escaping @Sendable (String) -> OriginServer.Answer,
        _ body: (JobQueue, OriginServer) async throws -> Void
    ) async throws {
        let leaseGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await RedisServerProcess.run { (server) async throws in
            try await OriginServer.run {
                answer($0.path)
            } _: { (origin) async throws in
                var configuration = Worker.Configuration(control: server.configuration)
                configuration.addressPolicy.allowsPrivate = true
                configuration.takeoverDelay = .zero
                change(&configuration)
                let worker = try Worker(
                    configuration,
                    name: "host:1:a",
                    group: MultiThreadedEventLoopGroup.singleton,
                    leaseGroup: leaseGroup,
                    logger: logger,
                    onHungRender: {}
                )
                try await worker.start()
                let client = server.client()
                defer { client.close() }
                let queue = JobQueue(client, keys: configuration.keys)
                let signal = ShutdownSignal()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { await worker.run(until: signal) }
                    defer { signal.raise(to: .abort) }
                    try await body(queue, origin)
                }
            }
        }
        try await leaseGroup.shutdownGracefully()
    }

    private func push(_ ids: [String], _ queue: JobQueue, _ origin: OriginServer) async throws {
        for id in ids {
            let job = Job(id: id, source: origin.url("/\(id)").absoluteString)
            try await queue.redis.send([
                "LPUSH", .string(queue.keys.jobs), .string(String(decoding: job.json(), as: UTF8.self)),
            ])
        }
    }

    /// Fault: two images that arrived slowly kept a worker with two places from all others.
    @Test func otherJobsRunBesideLongFetches() async throws {
        let image = TestImage.quarters(width: 8, height: 8)
        try await withWorker {
            $0.concurrency = 2
        } _: {
            $0.hasPrefix("/slow") ? Self.endless : .image(image)
        } _: { (queue, origin) async throws in
            try await push(["slow1", "slow2"], queue, origin)
            for path in ["/slow1", "/slow2"] { await origin.waitForRequests(path, count: 1) }
            try await push(["quick1", "quick2", "quick3"], queue, origin)
            for path in ["/quick1", "/quick2", "/quick3"] { await origin.waitForRequests(path, count: 1) }
            while try await queue.alive() > 2, !Task.isCancelled { await Task.yield() }
            #expect(try await queue.alive() == 2)
        }
    }

    /// Fault: a host that answered at once got four requests until the first of its bodies had arrived.
    @Test func theFirstBytesOfAHostAreItsFirstAnswer() async throws {
        try await withWorker {
            ($0.concurrency, $0.hostLimits.firstConcurrency) = (3, 1)
        } _: { _ in
            Self.endless
        } _: { (queue, origin) async throws in
            try await push(["a", "b", "c"], queue, origin)
            for path in ["/a", "/b", "/c"] { await origin.waitForRequests(path, count: 1) }
            #expect(origin.total == 3)
        }
    }
}
