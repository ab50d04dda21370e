import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// A coordinator in this process and the worker processes of a benchmark, running as long as a body runs.
struct BenchmarkCluster: Sendable {
    let address: RedisConfiguration
    /// Arguments of each worker process, after `megaton-bench`. Its last line of output is a histogram.
    let workers: [[String]]

    /// - Returns: the result of the body, and the merged histograms of all workers.
    func run<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> (Value, LatencyHistogram) {
        let coordinator = Coordinator(
            .init(),
            redis: address,
            group: MultiThreadedEventLoopGroup.singleton,
            name: ProcessIdentity.process(),
            logger: LogOptions.logger("megaton.coordinator", level: .error)
        )
        try await coordinator.start()
        let processes = BenchmarkProcesses(arguments: workers, environment: ["MEGATON_REDIS": address.description])
        let (value, outputs) = try await withThrowingTaskGroup(of: (Value, [String])?.self) { group in
            group.addTask {
                await coordinator.runUntilCancelled()
                return nil
            }
            group.addTask { try await processes.run(body) }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
            }
            throw CancellationError()
        }
        var all = LatencyHistogram()
        for output in outputs {
            let line = output.split(separator: "\n").last ?? ""
            all.merge(try JSONDecoder().decode(LatencyHistogram.self, from: Data(line.utf8)))
        }
        return (value, all)
    }
}
