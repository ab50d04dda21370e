import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct WorkerTests {
    /// Fault: its claim, its last statistics and its leave each waited for the time of a command. Here that is an hour, so
    /// that it ends within this test only if it waits for none of them.
    @Test func aWorkerThatIsToldToEndDoesNotWaitForARedisThatIsAway() async throws {
        let leaseGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await RedisServerProcess.run { (server) async throws in
            var control = server.configuration
            control.commandTimeout = .seconds(3600)
            var configuration = Worker.Configuration(control: control)
            configuration.lease = .seconds(10_800)
            configuration.renewInterval = .seconds(3600)
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
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await worker.run(until: signal) }
                while !worker.isReady, !Task.isCancelled { await Task.yield() }
                await server.crash()
                signal.raise(to: .drain)
            }
        }
        try await leaseGroup.shutdownGracefully()
    }

    /// Fault: it was tried once, so that a failover at that moment gave each of the jobs a stall.
    @Test func whatWasNotBegunIsGivenBackThoughRedisIsReadOnlyForAMoment() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let client = fixture.server.client("worker")
            defer { client.close() }
            let claims = claims(on: client, fixture)
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            let job = try await JobQueue(client, keys: fixture.keys).claim(1, worker: "w1", lease: .seconds(60))[0]
            client.hurry()
            try await fixture.redis.send(["REPLICAOF", "127.0.0.1", "1"])
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    await claims.giveBack([.init(job, validUntil: .now + .seconds(60))], trying: .seconds(60))
                }
                while try await fixture.redis.send(["INFO", "errorstats"]).string?.contains("READONLY") != true {
                    await Task.yield()
                }
                try await fixture.redis.send(["REPLICAOF", "NO", "ONE"])
                try await group.waitForAll()
            }
            #expect(try await fixture.places("a") == ["ready"])
        }
    }

    private func claims(on client: RedisClient, _ fixture: QueueFixture) -> ClaimLoop {
        let (queue, running, logger) = (
            JobQueue(client, keys: fixture.keys), RunningJobs(), Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        let gate = HostGate(redis: client, keys: fixture.keys, limits: HostLimits(), logger: logger)
        let configuration = Worker.Configuration(control: fixture.server.configuration)
        let handler = JobHandler(
            queue: queue,
            ends: EndTeller(queue, worker: "w1"),
            runner: SimulatedRunner(gate: gate, origins: [], work: { .zero }, onStart: { _ in }),
            running: running,
            statistics: StatisticsRecorder(),
            retry: configuration.retry,
            maximumStalls: configuration.maximumStalls,
            worker: "w1",
            history: History(file: nil, logger: logger),
            logger: logger
        )
        return ClaimLoop(
            configuration,
            queue: queue,
            wake: client,
            handler: handler,
            running: running,
            logger: logger
        )
    }
}
