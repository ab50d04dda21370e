import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix

@testable import MegatonCluster

/// A whole worker that also admits jobs, for the time of a test.
enum TestWorker {
    /// Runs the body beside a worker, which is aborted at the end.
    static func run(
        _ configuration: Worker.Configuration,
        isolation: isolated (any Actor)? = #isolation,
        _ body: () async throws -> Void
    ) async throws {
        try await runUntilSignal(configuration) { _, signal in
            try await body()
            signal.raise(to: .abort)
        }
    }

    /// Runs the body beside a worker, and waits for its end: the body gives the signal, or throws.
    static func runUntilSignal(
        _ configuration: Worker.Configuration,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Worker, ShutdownSignal) async throws -> Void
    ) async throws {
        let leaseGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let worker = try Worker(
            configuration,
            name: "host:1:a",
            group: MultiThreadedEventLoopGroup.singleton,
            leaseGroup: leaseGroup,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            onHungRender: {}
        )
        try await worker.start()
        let signal = ShutdownSignal()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await worker.run(until: signal) }
            do {
                try await body(worker, signal)
            } catch {
                signal.raise(to: .abort)
                throw error
            }
        }
        try await leaseGroup.shutdownGracefully()
    }

    /// Runs the body with a worker on a Redis of its own, and an origin.
    static func run(
        _ change: (inout Worker.Configuration) -> Void = { _ in },
        answer: @escaping @Sendable (String) -> OriginServer.Answer,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (JobQueue, OriginServer) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (server) async throws in
            try await OriginServer.run(answer: answer) { (origin) async throws in
                var configuration = Worker.Configuration(control: server.configuration)
                configuration.addressPolicy.allowsPrivate = true
                configuration.takeoverDelay = .zero
                change(&configuration)
                let client = server.client()
                defer { client.close() }
                let queue = JobQueue(client, keys: configuration.keys)
                try await run(configuration) { try await body(queue, origin) }
            }
        }
    }
}

extension JobQueue {
    /// Pushes a job to the public list, as a foreign client does.
    func pushPublicly(_ json: String) async throws {
        try await redis.send(["LPUSH", .string(keys.jobs), .string(json)])
    }
}
