import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Synchronization

/// Batches that real processes submit one after the other, during all faults, until `stop()`.
final class ChaosLoad: Sendable {
    /// Counts of all batches and jobs.
    struct Result {
        var batches = 0
        /// Batches that could not be started, as Redis was unreachable.
        var refused = 0
        var jobs = 0
        var done = 0
        var failed = 0
        var violations: [String] = []
    }

    private let program: String
    private let control: String
    private let origin: URL
    private let directory: String
    private let state = Mutex((isStopping: false, result: Result()))

    private static let jobsOfABatch = 240
    /// Distinct paths that a batch asks for; a third of them is common to all batches.
    private static let paths = 120
    /// Time limit of a batch: longer than any fault and all retries together.
    private static let patience: Duration = .seconds(300)

    /// - Parameter control: the URL that the submitting processes use.
    init(program: String, control: String, origin: URL, directory: String) {
        self.program = program
        self.control = control
        self.origin = origin
        self.directory = directory
    }

    var result: Result { state.withLock { $0.result } }

    /// Starts no further batch.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Submits batches until `stop()`.
    ///
    /// - Parameter number: distinguishes loads that run in parallel.
    func run(_ number: Int) async throws {
        var round = 0
        while !state.withLock({ $0.isStopping }) {
            round += 1
            try await submit("chaos-\(number)-\(round)")
        }
    }

    private func submit(_ batch: String) async throws {
        let list = "\(directory)/\(batch).jsonl"
        let ledger = "\(directory)/\(batch)-ledger.jsonl"
        try Data(lines(batch).joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: list))
        let process = try ProgramUnderTest(
            program: program,
            arguments: [
                "submit", list, "--batch", batch, "--wait", "--json", "--ledger", ledger, "--output",
                "\(directory)/out/\(batch)", "--attempts", "8", "--redis", control,
            ]
        )
        let code = await Fleet.ending(of: process, within: Self.patience)
        var found: [String] = []
        let outcomes = try Self.outcomes(ledger)
        // Without Redis at its start the command exits with 69, and no job was acknowledged.
        if code == 69 && outcomes.isEmpty && process.errors.split(separator: "\n").count == 1 {
            state.withLock { $0.result.refused += 1 }
            return
        }
        // Exit code 2: some jobs failed, and the ledger must list them.
        if code != 0 && code != 2 {
            found.append(
                "batch \(batch) ended with \(code.map(String.init) ?? "nothing"): \(process.errors.suffix(300))"
            )
        }
        if outcomes.count != Self.jobsOfABatch {
            found.append("I1: batch \(batch) has \(outcomes.count) outcomes of \(Self.jobsOfABatch)")
        }
        if Set(outcomes.compactMap(\.id)).count != outcomes.count {
            found.append("I2: batch \(batch) has a job twice in its ledger")
        }
        let (done, failed) = (outcomes.count { $0.status == .done }, outcomes.count { $0.status == .failed })
        for outcome in outcomes where outcome.status == .done {
            for output in outcome.outputs where !Self.isWhole(output) {
                found.append("batch \(batch): \(output.path ?? "?") is not there, or not whole")
            }
        }
        state.withLock { state in
            state.result.batches += 1
            state.result.jobs += Self.jobsOfABatch
            state.result.done += done
            state.result.failed += failed
            state.result.violations += found
        }
        try FileManager.default.removeItem(atPath: list)
    }

    private func lines(_ batch: String) -> [String] {
        (0..<Self.jobsOfABatch).map { number in
            let path = number % Self.paths
            let name = path % 3 == 0 ? "common-\(path)" : "\(batch)-\(path)"
            let url = origin.appendingPathComponent("\(name).png").absoluteString
            let width = 16 + number / Self.paths
            return #"{"source":"\#(url)","renditions":[{"name":"w\#(width)","width":\#(width)}]}"#
        }
    }

    private static func isWhole(_ output: JobOutcome.Output) -> Bool {
        guard let path = output.path,
            let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
        else { return false }
        return size == output.bytes
    }

    private static func outcomes(_ ledger: String) throws -> [JobOutcome] {
        guard let data = FileManager.default.contents(atPath: ledger) else { return [] }
        return try data.split(separator: 10).map { try JSONDecoder().decode(JobOutcome.self, from: Data($0)) }
    }
}
