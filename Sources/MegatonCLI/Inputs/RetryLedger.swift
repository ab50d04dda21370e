import Foundation
import MegatonCluster

/// A ledger of an earlier run, whose failed jobs are to be done again as they were asked for then.
struct RetryLedger {
    let path: String

    /// Directories that workers are allowed; beyond that their common parents are.
    private static let rootLimit = 64

    /// The job of a line, without the id and the batch that it had; nil where it did not fail.
    ///
    /// - Throws: `Failure` where the line is none of a ledger, or does not hold its job.
    static func failedJob(_ line: String) throws -> Job? {
        let outcome: JobOutcome
        do {
            outcome = try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8))
        } catch {
            throw Failure.usage("--retry-failed: this is no line of a ledger: \(line.prefix(80))")
        }
        guard outcome.status == .failed else { return nil }
        guard var job = outcome.job else {
            throw Failure.usage(
                "--retry-failed: the ledger does not hold the job of \(outcome.source.prefix(80)): it was no readable job, "
                    + "or larger than \(JobOutcome.maximumJobSize) bytes. Name its source by hand."
            )
        }
        job.id = nil
        job.batch = nil
        return job
    }

    /// Where the new ledger goes unless it is told: beside the old one.
    var successor: String {
        let old = URL(fileURLWithPath: path).standardizedFileURL
        return old.deletingPathExtension().path + ".retry.jsonl"
    }

    static func isSame(_ left: String, _ right: String) -> Bool {
        URL(fileURLWithPath: left).resolvingSymlinksInPath().path
            == URL(fileURLWithPath: right).resolvingSymlinksInPath().path
    }

    /// The directories that its failed jobs read from and write to, so that the run's own workers may.
    ///
    /// - Throws: `Failure` where the ledger cannot be read.
    func roots() throws -> [String] {
        var directories: Set<String> = []
        var reader = try InputReader.lines(of: path)
        while case .line(let line) = try reader.next(waiting: -1) {
            guard let job = try Self.failedJob(line) else { continue }
            if let source = URL(string: job.source), source.isFileURL {
                directories.insert(Self.existing(source.deletingLastPathComponent().path(percentEncoded: false)))
            }
            if let output = job.output {
                let fixed = String(output.prefix { $0 != "{" })
                let path = (URL(string: fixed)?.path(percentEncoded: false) ?? "/") as NSString
                directories.insert(
                    Self.existing(fixed.hasSuffix("/") ? path as String : path.deletingLastPathComponent)
                )
            }
        }
        return try Self.covering(directories)
    }

    /// The directory, or the nearest above it that is there.
    private static func existing(_ path: String) -> String {
        var url = URL(fileURLWithPath: path).standardizedFileURL
        while url.path != "/" && !FileManager.default.fileExists(atPath: url.path) { url.deleteLastPathComponent() }
        return url.path
    }

    /// Few directories that hold all of them, and never the root of everything.
    private static func covering(_ directories: Set<String>) throws -> [String] {
        var all = directories
        while all.count > rootLimit {
            let deepest = all.map { $0.split(separator: "/").count }.max() ?? 0
            all = Set(
                all.map { $0.split(separator: "/").count == deepest ? ($0 as NSString).deletingLastPathComponent : $0 }
            )
        }
        if all.contains("/") {
            throw Failure.usage("--retry-failed: its files lie all over the disk; give their places by --allow-root.")
        }
        return all.sorted()
    }
}
