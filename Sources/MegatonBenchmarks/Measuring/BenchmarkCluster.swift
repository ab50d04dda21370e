import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// A coordinator in this process and the worker processes of a benchmark, running as long as a body runs.
struct BenchmarkCluster<Output: Decodable & Sendable>: Sendable {
    let queue: BenchmarkQueue
    /// Arguments of each worker process, after `megaton-bench`. The last line of its output is an `Output` as JSON.
    let workers: [[String]]

    /// - Returns: the result of the body, and the outputs of all workers.
    func run<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> (Value, [Output]) {
        var settings = Coordinator.Configuration()
        settings.keys = queue.address.keys(0)
        settings.furtherControls = Array(queue.address.servers.dropFirst())
        let coordinator = Coordinator(
            settings,
            redis: queue.address.servers[0],
            group: MultiThreadedEventLoopGroup.singleton,
            name: ProcessIdentity.process(),
            logger: LogOptions.logger("megaton.coordinator", level: .error)
        )
        try await coordinator.start()
        let processes = BenchmarkProcesses(
            arguments: workers.map { $0 + queue.childOptions },
            environment: queue.childEnvironment
        )
        let (value, outputs) = try await withThrowingTaskGroup(of: (Value, [String])?.self) { group in
            group.addTask {
                await coordinator.runUntilCancelled()
                return nil
            }
            group.addTask { try await processes.run(body) }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
                if Task.isCancelled { break }
                throw CLIError.broken("the coordinator of the benchmark ended: the queue was changed meanwhile.")
            }
            throw CancellationError()
        }
        let lines = outputs.map { $0.split(separator: "\n").last ?? "" }
        return (value, try lines.map { try JSONDecoder().decode(Output.self, from: Data($0.utf8)) })
    }
}
