import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct WorkerTests {
    /// Fault: a claim, the last statistics and the deregistration each waited for a command's timeout. Here that is an
    /// hour, so that the worker ends within this test only if it waits for none of them.
    @Test func aWorkerThatShutsDownDoesNotWaitForAnUnreachableRedis() async throws {
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
}
