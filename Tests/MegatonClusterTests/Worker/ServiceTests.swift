import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import ServiceLifecycle
import Testing

@testable import MegatonCluster

/// Coordinator and worker in a service group, as a program outside of this package runs them.
@Suite(.timeLimit(.minutes(2))) struct ServiceTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func worker(_ redis: RedisConfiguration) throws -> Worker {
        try Worker(Worker.Configuration(control: redis), logger: logger, onHungRender: {})
    }

    @Test func aGroupWorksUntilItsGracefulShutdown() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let coordinator = Coordinator(.init(), redis: server.configuration, logger: logger)
            let services: [any Service] = [coordinator, try worker(server.configuration)]
            let group = ServiceGroup(services: services, logger: logger)
            let running = Task { try await group.run() }
            let client = try ClusterClient(redis: server.url, logger: logger)
            let image = "data:image/png;base64,"
            let png = TestImage.quarters(width: 8, height: 8).base64EncodedString()
            for try await outcome in try await client.submit([Job(source: image + png)]).outcomes {
                #expect(outcome.status == .done)
            }
            await group.triggerGracefulShutdown()
            try await running.value
            let status = try await client.status()
            #expect(status.workers.isEmpty && status.leader == nil, "both have signed off")
        }
    }

    @Test func cancellationEndsAService() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let worker = try worker(server.configuration)
            let running = Task { try await worker.run() }
            while !worker.isReady { await Task.yield() }
            running.cancel()
            try await running.value
            let redis = server.client()
            defer { redis.close() }
            #expect(try await redis.send(["ZCARD", .string(QueueKeys().workers)]).int == 0)
        }
    }

    /// Such a worker would claim no job, or lose each before its first heartbeat, without an error.
    @Test func anInvalidConfigurationIsRefused() throws {
        let redis = "redis://127.0.0.1:1"
        let changes: [(inout Worker.Configuration) -> Void] = [
            { $0.concurrency = 0 }, { $0.renderConcurrency = 0 }, { $0.lease = .milliseconds(10) },
        ]
        for change in changes {
            var configuration = try Worker.Configuration(redis: redis)
            change(&configuration)
            #expect { _ = try Worker(configuration, logger: logger, onHungRender: {}) } throws: {
                ($0 as? ClusterError)?.code == .invalidConfiguration
            }
        }
        var configuration = Coordinator.Configuration()
        configuration.window = 0
        #expect { _ = try Coordinator(configuration, redis: redis, logger: logger) } throws: {
            ($0 as? ClusterError)?.code == .invalidConfiguration
        }
    }

    @Test func aServiceThatCannotStartClosesItsConnection() async throws {
        try await RedisServerProcess.run(.init(settings: ["maxmemory-policy allkeys-lru"])) { (server) async throws in
            let coordinator = Coordinator(.init(), redis: server.configuration, logger: logger)
            let services: [any Service] = [coordinator, try worker(server.configuration)]
            for service in services {
                await #expect { try await service.run() } throws: {
                    ($0 as? RedisError)?.code == .invalidConfiguration
                }
            }
            let redis = server.client()
            defer { redis.close() }
            let names = ["name=megaton:coordinator", "name=megaton:control"]
            // The server notices the end of a connection a little later.
            while let clients = try await redis.send(["CLIENT", "LIST"]).string,
                names.contains(where: { clients.contains($0) })
            {
                await Task.yield()
            }
            withExtendedLifetime(services) {}
        }
    }

    @Test func aWorkerThatIsShutDownBeforeItWorksEndsItsThreads() async throws {
        weak var threads: AnyObject?
        do {
            let worker = try worker(RedisConfiguration(address: .unix(path: "/nonexistent/redis.sock")))
            threads = worker.files
            let running = Task { try await worker.run() }
            running.cancel()
            try await running.value
        }
        // The threads retain their pool until they end.
        while threads != nil { await Task.yield() }
    }

    @Test func aShutdownEndsTheWaitForRedis() async throws {
        let away = RedisConfiguration(address: .unix(path: "/nonexistent/redis.sock"))
        let coordinator = Coordinator(.init(), redis: away, logger: logger)
        let group = ServiceGroup(services: [coordinator, try worker(away)], logger: logger)
        let running = Task { try await group.run() }
        await group.triggerGracefulShutdown()
        try await running.value
    }
}
