import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct WorkerTests {
    /// Fault: a claim, the last statistics and the deregistration each waited for a command's timeout. Here that is an
    /// hour, so that the worker ends within this test only if it waits for none of them.
    @Test func aWorkerThatShutsDownDoesNotWaitForAnUnreachableRedis() async throws {
        try await RedisServerProcess.run { (server) async throws in
            var control = server.configuration
            control.commandTimeout = .seconds(3600)
            var configuration = Worker.Configuration(control: control)
            configuration.lease = .seconds(10_800)
            configuration.renewInterval = .seconds(3600)
            try await TestWorker.runUntilSignal(configuration) { worker, signal in
                while !worker.isReady, !Task.isCancelled { await Task.yield() }
                await server.crash()
                signal.raise(to: .drain)
            }
        }
    }
}
