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
        var deduplicated = 0
        /// Of jobs of which only one is to be run, how many were.
        var runs: [String: Int] = [:]
        /// Jobs that may not begin before a time, in milliseconds since 1970.
        var delayed: [(id: String, notBefore: Int)] = []
        var violations: [String] = []
    }

    private struct State {
        var isStopping = false
        var isPaused = false
        var era = 0
        var result = Result()
    }

    private let program: String
    private let control: String
    private let origin: URL
    private let hosts: ChaosHosts
    private let directory: String
    private let seed: UInt64
    private let state = Mutex(State())

    /// Number of loads that run in parallel: two of plain batches, which keep the fleet busy, and two of all other
    /// kinds, which wait for dead hosts most of their time.
    static let submitters = 4
    private static let plain = 2
    /// Time limit of a batch: longer than any fault and all retries together.
    private static let patience: Duration = .seconds(300)

    /// - Parameter control: the URL that the submitting processes use.
    init(
        program: String,
        control: String,
        origin: URL,
        hosts: ChaosHosts,
        directory: String,
        seed: UInt64
    ) {
        self.program = program
        self.control = control
        self.origin = origin
        self.hosts = hosts
        self.directory = directory
        self.seed = seed
    }

    var result: Result { state.withLock { $0.result } }

    /// Starts no further batch.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Starts no batch until `resume()`; those that were started go on.
    func pause() { state.withLock { $0.isPaused = true } }

    func resume() { state.withLock { $0.isPaused = false } }

    /// Uses other idempotency keys from now on, as the queue has another number of shards.
    func beginEra() { state.withLock { $0.era += 1 } }

    /// Submits batches until `stop()`.
    ///
    /// - Parameter number: distinguishes loads that run in parallel.
    func run(_ number: Int) async throws {
        var random = SeededGenerator(seed: seed &+ UInt64(number) << 32)
        var round = 0
        while true {
            let (isStopping, isPaused, era) = state.withLock { ($0.isStopping, $0.isPaused, $0.era) }
            if isStopping { return }
            if isPaused {
                try await ContinuousClock().sleep(for: .milliseconds(200))
                continue
            }
            // The kinds in turn, from another one in each load, so that a short run has all of them.
            let others: [ChaosBatch.Kind] = [.mixed, .packs, .repeated]
            let kind = number < Self.plain ? .plain : others[(round + number) % others.count]
            round += 1
            let dead = try await hosts.dead()
            defer { dead.stop() }
            let batch = ChaosBatch(
                kind,
                name: "chaos-\(number)-\(round)",
                origin: origin,
                hosts: hosts,
                dead: dead,
                era: era,
                random: &random
            )
            try await submit(batch)
        }
    }

    private func submit(_ batch: ChaosBatch) async throws {
        let list = "\(directory)/\(batch.name).jsonl"
        let ledger = "\(directory)/\(batch.name)-ledger.jsonl"
        try JobList.write(batch.lines.map(\.json), to: list)
        let process = try ProgramUnderTest(
            program: program,
            arguments: [
                "submit", list, "--batch", batch.name, "--wait", "--json", "--ledger", ledger, "--output",
                "\(directory)/out/\(batch.name)", "--attempts", "8", "--redis", control,
            ] + batch.options
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
                "batch \(batch.name) ended with \(code.map(String.init) ?? "nothing"): \(process.errors.suffix(300))"
            )
        }
        found += batch.violations(of: outcomes)
        for outcome in outcomes where outcome.status == .done {
            for output in outcome.outputs where !Self.isWhole(output) {
                found.append("batch \(batch.name): \(output.path ?? "?") is not there, or not whole")
            }
        }
        state.withLock { state in
            state.result.batches += 1
            state.result.jobs += batch.lines.count
            state.result.done += outcomes.count { $0.status == .done }
            state.result.failed += outcomes.count { $0.status == .failed }
            state.result.deduplicated += outcomes.count { $0.status == .deduplicated }
            for group in Set(batch.lines.compactMap(\.group)) { state.result.runs[group, default: 0] += 0 }
            for group in batch.groupsRun(outcomes) { state.result.runs[group, default: 0] += 1 }
            state.result.delayed += batch.delayed
            state.result.violations += found
        }
        try FileManager.default.removeItem(atPath: list)
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
