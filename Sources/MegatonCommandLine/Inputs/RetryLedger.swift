import Foundation
package import MegatonCluster
import SystemPackage

/// A ledger of an earlier run, whose failed jobs are repeated with their original options.
package struct RetryLedger {
    package let path: String

    package init(path: String) { self.path = path }

    /// Codes of failures that do not show whether the source's directory was allowed.
    private static let inconclusiveCodes: Set<String> = ["forbidden", "invalid_url", "invalid_job", "id_conflict"]

    /// Maximum number of directories that workers may read without an explicit option.
    private static let rootLimit = 64

    /// Number of lines that decide whether a file is a ledger.
    private static let checkedLines = 20

    /// - Parameter option: the option or argument that names the ledger, for messages.
    /// - Throws: `CLIError` if it is not a regular file, cannot be read, or none of its first lines is a ledger's.
    package func check(_ option: String = "--retry-failed") throws {
        var info = stat()
        // It is read more than once: a pipe would lose the lines of the first read, or never end.
        if stat(path, &info) == 0, info.st_mode & S_IFMT != S_IFREG {
            throw CLIError.usage(
                "\(option): \(path) is not a regular file, but a ledger is read more than once. Save it to a "
                    + "file, and name that file."
            )
        }
        var reader = try InputReader.lines(of: path)
        var lines = 0
        while lines < Self.checkedLines, let line = try reader.nextLine() {
            if Self.outcome(line) != nil { return }
            lines += 1
        }
        if lines > 0 {
            throw CLIError.usage(
                "\(option): \(path) is not a ledger: none of its first \(Self.checkedLines) lines is the outcome "
                    + "of a job."
            )
        }
    }

    /// Whether a failed job of the ledger meets a condition. Reads the whole ledger if none does, and blocks.
    ///
    /// - Throws: `CLIError` if the ledger cannot be read.
    package func hasFailedJob(where condition: (Job) -> Bool) throws -> Bool {
        var reader = try InputReader.lines(of: path)
        while let line = try reader.nextLine() {
            // To decode a line takes far longer, and most lines are those of jobs that are done.
            guard line.contains("\"failed\""), let outcome = Self.outcome(line), outcome.status == .failed,
                let job = outcome.job
            else { continue }
            if condition(job) { return true }
        }
        return false
    }

    /// A line of the ledger, as read for a retry.
    enum Entry {
        /// A failed job, without its earlier id and batch.
        case job(Job)
        /// A failed job that the ledger does not contain, and its error.
        case unknown(String)
        case cancelled
        /// A job that is done or deduplicated.
        case ended
        /// A job that was not run, as an earlier one with its id or idempotency key has failed.
        case failedDuplicate
        /// Not a whole line of a ledger.
        case broken
    }

    /// Jobs of the ledger that a retry leaves undone.
    package struct NotRetried: Sendable, Equatable {
        /// Failed jobs that the ledger does not contain.
        package var failed = 0
        package var cancelled = 0
        /// Jobs that were not run, as an earlier one with their id or idempotency key has failed.
        package var duplicates = 0

        package init() {}

        package var isEmpty: Bool { failed + cancelled + duplicates == 0 }

        /// Reports their numbers, and the reasons.
        package func report() {
            if failed > 0 {
                let jobs = Counted.of(failed, "failed job")
                let (they, them) = failed == 1 ? ("it was", "it") : ("they were", "them")
                Terminal.error(
                    "megaton: \(jobs) could not be repeated: the ledger does not have \(them), because \(they) "
                        + "unreadable or too large. The lines above name \(them); submit \(them) again."
                )
            }
            if cancelled > 0 {
                let jobs = Counted.of(cancelled, "cancelled job")
                Terminal.error(
                    "megaton: \(jobs) of the ledger \(cancelled == 1 ? "was" : "were") left out: --retry-failed "
                        + "repeats failed jobs only. Run the cancelled command again."
                )
            }
            if duplicates > 0 {
                let jobs = Counted.of(duplicates, "duplicate")
                Terminal.error(
                    "megaton: \(jobs) of jobs that have failed \(duplicates == 1 ? "was" : "were") left out: repeat "
                        + "the failed jobs with megaton dead requeue, or submit these with another key."
                )
            }
        }
    }

    /// - Parameter outcome: nil if the line is not a ledger's.
    static func entry(_ outcome: JobOutcome?) -> Entry {
        guard let outcome else { return .broken }
        switch outcome.status {
        case .done: return .ended
        case .deduplicated:
            return JobOutcome.isFailedDuplicate(.deduplicated, code: outcome.error?.code) ? .failedDuplicate : .ended
        case .cancelled: return .cancelled
        case .failed: break
        }
        guard var job = outcome.job else {
            guard let error = outcome.error else { return .unknown("without an error") }
            return .unknown("as \(error.code): \(error.message.prefix(200))")
        }
        if let id = job.id {
            // The job gets another id, and its output must stay that of the first run.
            let name = FileNames.encoded(OutputTemplate.plain(id))
            job.output = job.output?.replacingOccurrences(of: OutputTemplate.Placeholder.id.written, with: name)
        }
        job.id = nil
        job.batch = nil
        job.ignoresRememberedFailures = true
        // A run waits for its jobs, and closes its batch, itself.
        (job.requeuedFrom, job.reply, job.batchSize) = (nil, nil, nil)
        (job.idempotencyKey, job.idempotencyTTL, job.notBefore, job.traceparent) = (nil, nil, nil, nil)
        return .job(job)
    }

    /// Nil if the line is not a ledger's, or was cut off, as by a full disk.
    static func outcome(_ line: String) -> JobOutcome? {
        try? JobOutcome(json: Data(line.utf8))
    }

    /// Default path of the new ledger: beside the old one, and beside those of earlier retries.
    package var nextPath: String {
        let base = URL(fileURLWithPath: path).standardizedFileURL.deletingPathExtension().path
        let names = (1...999).lazy.map { $0 == 1 ? "\(base).retry.jsonl" : "\(base).retry-\($0).jsonl" }
        return names.first { !FileManager.default.fileExists(atPath: $0) } ?? "\(base).retry.jsonl"
    }

    package static func isSame(_ left: String, _ right: String) -> Bool {
        FilePath(URL(fileURLWithPath: left).resolvingSymlinksInPath().path)
            == FilePath(URL(fileURLWithPath: right).resolvingSymlinksInPath().path)
    }

    /// The directory of the ledger. The outputs of its jobs may go beneath it, as in the first run if the ledger had
    /// its default path.
    package var directory: String { URL(fileURLWithPath: path).standardizedFileURL.deletingLastPathComponent().path }

    /// The directories of the failed jobs' sources, which the run's own workers may read, and the ledger's own
    /// directory.
    ///
    /// A retry does not allow a directory that was forbidden, or one that was never checked because its URL was
    /// invalid, and it never allows a parent of a source's directory: a ledger repeats lines of lists that may come
    /// from strangers. A source that was not found had been looked for beneath a root.
    ///
    /// - Parameter isStopped: asked before each line, as a ledger may have millions.
    /// - Throws: `CLIError` if the ledger cannot be read, or names too many directories, or 130 if the reading was
    ///   stopped.
    package func readRoots(isStopped: () -> Bool = { false }) throws -> [String] {
        let own = directory
        var directories: Set<FilePath> = [FilePath(own)]
        var reader = try InputReader.lines(of: path)
        while let line = try reader.nextLine() {
            if isStopped() {
                throw CLIError(
                    code: 130,
                    message: "interrupted while the ledger \(path) was read. Nothing was begun."
                )
            }
            guard let outcome = Self.outcome(line), outcome.status == .failed, let job = outcome.job,
                !Self.inconclusiveCodes.contains(outcome.error?.code ?? "")
            else { continue }
            guard let source = URL(string: job.source), source.isFileURL else { continue }
            let parent = FilePath(source.deletingLastPathComponent().standardizedFileURL.path)
            if !parent.starts(with: FilePath(own)) && Self.isDirectory(parent.string) { directories.insert(parent) }
        }
        guard directories.count <= Self.rootLimit else {
            throw CLIError.usage(
                "--retry-failed: the sources are in \(directories.count) directories, more than \(Self.rootLimit). "
                    + "Allow their parent directories with --allow-read."
            )
        }
        return directories.map(\.string).sorted()
    }

    private static func isDirectory(_ path: String) -> Bool {
        var isDirectory: ObjCBool = false
        return path != "/" && FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
            && isDirectory.boolValue
    }
}
