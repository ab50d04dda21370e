import Foundation

/// Processes of `megaton bench` that belong to a benchmark, for as long as a body runs.
struct BenchProcesses: Sendable {
    /// Of each of them, behind `megaton bench`.
    let arguments: [[String]]
    /// The Redis' URL, which may carry a password.
    let environment: [String: String]

    /// - Returns: what the body returns, and what each process printed.
    /// - Throws: `Failure` too where one of them ends before the body.
    func run<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> (Value, [String]) {
        guard let program = CommandLineProgram.path else {
            throw Failure.broken("the program's own path is not known: /proc is not mounted?")
        }
        let logs = try TemporaryDirectory()
        defer { logs.remove() }
        let outputs = arguments.indices.map { "\(logs.path)/\($0)" }
        let value = try await withThrowingTaskGroup(of: Value?.self) { group in
            for (arguments, output) in zip(arguments, outputs) {
                let child = ChildProcess(
                    command: [program, "bench"] + arguments,
                    environment: environment,
                    log: output
                )
                group.addTask {
                    let ending = try await child.run()
                    if Task.isCancelled { return nil }
                    // Without its words there is only how it ended.
                    let words = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
                    // 69 is Redis' alone.
                    throw Failure(
                        code: ending == .exited(69) ? 69 : 70,
                        message: "a process of the benchmark ended (\(ending)). \(words.suffix(400))"
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
