import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline
import MegatonRedis
import Synchronization

/// Writes the samples of a batch to shards: the bytes of each rendition come from the shared cache, by the key that the
/// outcome names.
///
/// A job has a line in the ledger only after its sample is on the disk. A run that continues adds the lines of samples
/// that have none: the shards decide which jobs are done.
final class ShardOutput: Sendable {
    let path: String
    let known: KnownSamples
    private let shards: Mutex<TarShards>
    private let thread: ThreadPool
    private let lost = Mutex(0)

    /// Bytes of renditions that are read from the cache at once, unless one job has more.
    private static let readLimit = 16 * 1024 * 1024
    /// Time limit for a cache that does not answer.
    private static let patience: Duration = .seconds(60)
    /// Lines that a ledger gets at once.
    private static let linesAtOnce = 1000

    /// Opens the directory, recovers what a killed process has left, and adds the lines to the ledger that it lacks.
    ///
    /// - Parameters:
    ///   - path: absolute path of the directory, which exists.
    ///   - renditions: a text for those of the options; the directory is refused if it has others.
    ///   - shutdown: its first signal ends the reading, as archives without an index are read as a whole.
    /// - Throws: `CLIError` if the directory or the ledger cannot be used, or 130 after a signal.
    static func open(
        _ path: String,
        limits: TarShards.Limits,
        renditions: String,
        ledger: Ledger,
        unless shutdown: ShutdownSignal
    ) async throws -> ShardOutput {
        let thread = ThreadPool(name: "megaton-shards", count: 1)
        do {
            let known = KnownSamples()
            let isStopped: @Sendable () -> Bool = { shutdown.level > .none }
            let listed = try await ledger.resumedDigests { line in
                if isStopped() { throw ShardScan.interrupted(LedgerPath.name(ledger.path ?? "")) }
                known.note(line: line)
            }
            let shards = try await thread.run {
                try TarShards(
                    path,
                    limits: limits,
                    renditions: Checksum.sha256(Data(renditions.utf8)),
                    listed: listed,
                    known: known,
                    isStopped: isStopped
                )
            }
            let output = ShardOutput(path, shards, thread)
            try await output.complete(ledger, isStopped)
            return output
        } catch {
            thread.stop()
            throw error
        }
    }

    private init(_ path: String, _ shards: TarShards, _ thread: ThreadPool) {
        self.path = path
        known = shards.known
        self.shards = Mutex(shards)
        self.thread = thread
    }

    private func complete(_ ledger: Ledger, _ isStopped: () -> Bool) async throws {
        while true {
            // The next run adds the other lines.
            if isStopped() { throw ShardScan.interrupted(path) }
            let lines = try await thread.run { try self.shards.withLock { try $0.takeUnlisted(Self.linesAtOnce) } }
            if lines.isEmpty { return }
            lines.forEach(known.note(line:))
            try await ledger.append(lines)
        }
    }

    // MARK: - Samples

    /// Number of jobs that are done and have no sample, as the cache no longer has their renditions.
    var lostCount: Int { lost.withLock { $0 } }

    /// Writes the samples of the jobs that are done, and returns when they are on the disk.
    ///
    /// - Parameter shutdown: its second signal ends a wait for the cache.
    /// - Returns: the lines for the ledger. A job whose renditions the cache no longer has is failed there.
    /// - Throws: `CLIError` if a shard cannot be written, or 130 after the second signal, or `RedisError` if the cache
    ///   does not answer for a minute.
    func store(_ lines: [Data], from cache: RedisDataCache, unless shutdown: ShutdownSignal) async throws -> [Data] {
        var result = lines
        var open: [(index: Int, outcome: JobOutcome)] = []
        var bytes = 0
        for (index, line) in lines.enumerated() {
            guard let outcome = try? JobOutcome(json: line), outcome.status == .done,
                outcome.id != nil, !outcome.outputs.isEmpty
            else { continue }
            let size = outcome.outputs.reduce(0) { $0 + $1.bytes }
            if bytes + size > Self.readLimit, !open.isEmpty {
                try await store(open, &result, from: cache, unless: shutdown)
                (open, bytes) = ([], 0)
            }
            open.append((index, outcome))
            bytes += size
        }
        if !open.isEmpty { try await store(open, &result, from: cache, unless: shutdown) }
        try await thread.run { try self.shards.withLock { try $0.commit() } }
        return result
    }

    private func store(
        _ jobs: [(index: Int, outcome: JobOutcome)],
        _ lines: inout [Data],
        from cache: RedisDataCache,
        unless shutdown: ShutdownSignal
    ) async throws {
        let keys = jobs.flatMap { $0.outcome.outputs.map { $0.cacheKey ?? "" } }
        let data = try await data(of: keys, from: cache, unless: shutdown)
        var position = 0
        for (index, outcome) in jobs {
            let found = data[position..<position + outcome.outputs.count]
            position += outcome.outputs.count
            if let lack = Self.lack(outcome, found) {
                lost.withLock { $0 += 1 }
                lines[index] = Self.failed(outcome, lack).json()
                continue
            }
            let sample = ShardSample(outcome, line: lines[index], data: found.compactMap { $0 })
            let isNew = try await thread.run { try self.shards.withLock { try $0.append(sample) } }
            if isNew {
                known.note(outcome.source, of: sample.id)
                continue
            }
            // The batch had two jobs of this id.
            var repeated = outcome
            repeated.status = .deduplicated
            lines[index] = repeated.json()
        }
    }

    private func data(
        of keys: [String],
        from cache: RedisDataCache,
        unless shutdown: ShutdownSignal
    ) async throws -> [Data?] {
        try await withThrowingTaskGroup(of: [Data?]?.self) { group in
            group.addTask { try await Self.data(of: keys, from: cache) }
            group.addTask {
                await shutdown.wait(for: .abort)
                return nil
            }
            // The read ends then, at the latest at the time limit of one command.
            defer { group.cancelAll() }
            if let data = try await group.next() ?? nil { return data }
            guard shutdown.level == .abort else { throw CancellationError() }
            throw CLIError(
                code: 130,
                message: "interrupted while the samples of jobs that are done were read from the cache: they are not "
                    + "in the shards of \(path). The same command again adds them."
            )
        }
    }

    private static func data(of keys: [String], from cache: RedisDataCache) async throws -> [Data?] {
        let deadline = ContinuousClock.now + patience
        var backoff = Backoff()
        return try await retrying(until: ContinuousClock.now >= deadline) { () async throws(RedisError) in
            try await cache.renditions(keys)
        } pauseAfter: { error in
            error.isTransient ? backoff.next(after: error) : nil
        }
    }

    /// Largest entry that workers store in the shared cache, bytes.
    private static let largest = RedisDataCache.Configuration().maximumEntrySize

    /// The name of the first rendition whose bytes are not those of the outcome; nil if all are.
    private static func lack(_ outcome: JobOutcome, _ data: ArraySlice<Data?>) -> String? {
        zip(outcome.outputs, data).first { output, data in
            data.map { $0.count != output.bytes || Checksum.sha256($0) != output.sha256 } ?? true
        }?.0.name
    }

    private static func failed(_ outcome: JobOutcome, _ name: String) -> JobOutcome {
        let isTooLarge = outcome.outputs.contains { $0.name == name && $0.bytes > largest }
        var failed = outcome
        failed.status = .failed
        failed.outputs = []
        failed.error = JobOutcome.Failure(
            code: "not_in_cache",
            message: isTooLarge
                ? "The rendition \(FieldProblem.quoted(name)) is larger than \(Counted.bytes(Self.largest)), the limit of an "
                    + "entry of the cache, so that it is in no shard. Make it smaller, or write files."
                : "The rendition \(FieldProblem.quoted(name)) was made, but the cache has it no longer, so that it "
                    + "is in no shard: it was evicted, the cache Redis was full and stored nothing, as the logs of the "
                    + "workers say then, or its origin forbids to store it. If the cache is full, make room, and give "
                    + "the same command again; if the origin forbids it (no-store), write files.",
            retryable: !isTooLarge
        )
        return failed
    }

    // MARK: - The end

    /// Gives the last shard its name and its index.
    func finish() async throws {
        try await thread.run { try self.shards.withLock { try $0.finishShard() } }
    }

    func close() {
        thread.stop()
        shards.withLock { $0.close() }
    }

    /// A sentence about jobs that were not submitted; nil if there were none.
    var remark: String? {
        let (skipped, repeated) = known.leftOut
        var parts: [String] = []
        if skipped > 0 { parts.append("\(Counted.of(skipped, "job")) already in the shards of \(path)") }
        if repeated > 0 { parts.append("\(Counted.of(repeated, "repeated input"))") }
        return parts.isEmpty ? nil : "left out: \(parts.joined(separator: ", "))."
    }
}
