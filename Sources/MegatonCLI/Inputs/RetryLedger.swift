import Foundation
import MegatonCluster

/// A ledger of an earlier run, whose failed jobs are to be done again as they were asked for then.
struct RetryLedger {
    let path: String

    /// Codes of failures that say nothing of whether a place was allowed.
    private static let closed: Set<String> = ["forbidden", "invalid_url", "invalid_job", "id_conflict"]

    /// Directories that workers are allowed without a word.
    private static let rootLimit = 64

    /// Lines by which a file is known for a ledger.
    private static let knownBy = 20

    /// - Throws: `Failure` if it is no regular file, cannot be read, or begins with lines of which none is a ledger's.
    func check() throws {
        var info = stat()
        // It is read more than once: a pipe would lose the lines of the first time, or never end.
        if stat(path, &info) == 0, info.st_mode & S_IFMT != S_IFREG {
            throw Failure.usage(
                "--retry-failed: \(path) is no regular file, and a ledger is read more than once. Write it to a file, and "
                    + "name that."
            )
        }
        var reader = try InputReader.lines(of: path)
        var lines = 0
        while lines < Self.knownBy, let line = try reader.nextLine() {
            if Self.outcome(line) != nil { return }
            lines += 1
        }
        if lines > 0 {
            throw Failure.usage("--retry-failed: \(path) is no ledger: no line at its beginning is one of a job's end.")
        }
    }

    /// A line of the ledger, as a repetition takes it.
    enum Entry {
        /// A failed job, without the id and the batch that it had.
        case job(Job)
        /// A failed job that the ledger does not hold, and its error.
        case unknown(String)
        case cancelled
        /// A job that is done, or that is the same as another one.
        case ended
        /// No whole line of a ledger.
        case broken
    }

    /// Jobs of the ledger that a repetition leaves undone.
    struct LeftOut: Sendable, Equatable {
        /// Failed jobs that the ledger does not hold.
        var failed = 0
        var cancelled = 0

        var isEmpty: Bool { failed + cancelled == 0 }

        /// Reports how many there are, and why.
        func report() {
            if failed > 0 {
                let jobs = Counted.of(failed, "failed job")
                let (them, it) = failed == 1 ? ("the job", "it") : ("the jobs", "them")
                Terminal.error(
                    "megaton: \(jobs) of the ledger could not be repeated, as it does not hold \(them): unreadable or too "
                        + "large. The lines above say which; submit \(it) anew."
                )
            }
            if cancelled > 0 {
                let jobs = Counted.of(cancelled, "cancelled job")
                Terminal.error(
                    "megaton: \(jobs) of the ledger \(cancelled == 1 ? "was" : "were") left out: --retry-failed repeats "
                        + "failed jobs only. Give the command that was cancelled again."
                )
            }
        }
    }

    static func entry(_ line: String) -> Entry {
        guard let outcome = outcome(line) else { return .broken }
        switch outcome.status {
        case .done, .deduplicated: return .ended
        case .cancelled: return .cancelled
        case .failed: break
        }
        guard var job = outcome.job else {
            guard let error = outcome.error else { return .unknown("without an error") }
            return .unknown("as \(error.code): \(error.message.prefix(200))")
        }
        job.id = nil
        job.batch = nil
        job.ignoresRememberedFailures = true
        job.requeuedFrom = nil
        return .job(job)
    }

    /// Nil where the line is none of a ledger, or was cut off: a full disk does that.
    private static func outcome(_ line: String) -> JobOutcome? {
        try? JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8))
    }

    /// Where the new ledger goes unless it is told: beside the old one, and beside those of earlier repetitions.
    var successor: String {
        let base = URL(fileURLWithPath: path).standardizedFileURL.deletingPathExtension().path
        let names = (1...999).lazy.map { $0 == 1 ? "\(base).retry.jsonl" : "\(base).retry-\($0).jsonl" }
        return names.first { !FileManager.default.fileExists(atPath: $0) } ?? "\(base).retry.jsonl"
    }

    static func isSame(_ left: String, _ right: String) -> Bool {
        URL(fileURLWithPath: left).resolvingSymlinksInPath().path
            == URL(fileURLWithPath: right).resolvingSymlinksInPath().path
    }

    /// The directory that it is in: the outputs of its jobs may go beneath it, as they did if the ledger had no place of
    /// its own.
    var directory: String { URL(fileURLWithPath: path).standardizedFileURL.deletingLastPathComponent().path }

    /// The directories that its failed jobs read from, so that the run's own workers may; and its own.
    ///
    /// What was forbidden then is not allowed by asking again, nor is a place that was not even looked at, as its URL was
    /// none; and nothing above a named directory is ever allowed: a ledger repeats what lists of strangers said. What
    /// was not found had been looked for beneath a root.
    ///
    /// - Throws: `Failure` where the ledger cannot be read, or names too many places.
    func readRoots() throws -> [String] {
        let own = directory
        var directories: Set<String> = [own]
        var reader = try InputReader.lines(of: path)
        while let line = try reader.nextLine() {
            guard let outcome = Self.outcome(line), outcome.status == .failed, let job = outcome.job,
                !Self.closed.contains(outcome.error?.code ?? "")
            else { continue }
            guard let source = URL(string: job.source), source.isFileURL else { continue }
            let place = source.deletingLastPathComponent().standardizedFileURL.path
            if !Self.isBeneath(place, own) && Self.isDirectory(place) { directories.insert(place) }
        }
        guard directories.count <= Self.rootLimit else {
            throw Failure.usage(
                "--retry-failed: its files lie in \(directories.count) directories; allow their places by --allow-read."
            )
        }
        return directories.sorted()
    }

    private static func isBeneath(_ path: String, _ root: String) -> Bool { (path + "/").hasPrefix(root + "/") }

    private static func isDirectory(_ path: String) -> Bool {
        var isDirectory: ObjCBool = false
        return path != "/" && FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
            && isDirectory.boolValue
    }
}
