import Foundation
import MegatonCluster
import MegatonCommandLine

/// Child processes of a benchmark, running as long as a body runs.
struct BenchmarkProcesses: Sendable {
    /// Arguments of each process, after `megaton-bench`.
    let arguments: [[String]]
    /// The URL of Redis, which may contain a password.
    let environment: [String: String]

    /// - Returns: the result of the body, and the output of each process.
    /// - Throws: `CLIError` also if a process ends before the body.
    func run<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> (Value, [String]) {
        let program = try CommandLineProgram.path()
        let logs = try TemporaryDirectory()
        defer { logs.remove() }
        let outputs = arguments.indices.map { "\(logs.path)/\($0)" }
        let value = try await withThrowingTaskGroup(of: Value?.self) { group in
            for (arguments, output) in zip(arguments, outputs) {
                let child = ChildProcess(
                    command: [program] + arguments,
                    environment: environment,
                    log: output,
                    lock: logs.lockPath
                )
                group.addTask {
                    let termination = try await child.run()
                    if Task.isCancelled { return nil }
                    // Without its output the message has only the way it ended.
                    let words = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
                    // 69 stands for Redis alone.
                    throw CLIError(
                        code: termination == .exited(69) ? 69 : 70,
                        message: "a process of the benchmark ended (\(termination)). \(words.suffix(400))"
                    )
                }
            }
            group.addTask { try await body() }
            defer { group.cancelAll() }
            while let value = try await group.next() {
                if let value { return value }
            }
            throw CancellationError()
        }
        return (value, try outputs.map { try String(contentsOfFile: $0, encoding: .utf8) })
    }
}
