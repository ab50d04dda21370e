import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// The end of a run with `--delete-orphans`: asks, and deletes the outputs that only earlier runs have made.
struct OrphanDeletion: Sendable {
    /// Numbers of orphans.
    struct Counts: Sendable, Equatable {
        var deleted = 0
        var bytes = 0
        /// Files that stay, as they are others than a run has made, or behind a link.
        var kept = 0
        /// Files that stay, as the operator does not want them deleted.
        var declined = 0
        var failed = 0
        var wasInterrupted = false
        /// Whether an error ended the deletion.
        var isBroken = false

        /// The exit code of a run that has no other one than 0.
        var code: Int32 { wasInterrupted ? 130 : failed > 0 || isBroken ? 74 : 0 }

        /// Number of orphans that stay, as far as known.
        var left: Int { kept + declined + failed }
    }

    let finder: OrphanFinder
    /// Whether `--yes` was given.
    let isConfirmed: Bool
    let shutdown: ShutdownSignal

    /// Maximum number of files that are named.
    private static let named = 20
    /// Files that the question names.
    private static let shown = 3

    /// Called at the end of the run, while its ledger is locked. Reports an error, as the run has its summary all the
    /// same.
    func run(after result: BatchRun.Result) async throws -> Counts {
        let thread = ThreadPool(name: "megaton-orphans", count: 1)
        defer { thread.stop() }
        let reason = Self.obstacle(result, shutdown)
        do {
            return try await thread.run { try delete(unless: reason) }
        } catch let error as CLIError {
            Terminal.error("megaton: the orphans cannot be deleted: \(error.message) A later run tries again.")
            return Counts(isBroken: true)
        }
    }

    /// Why a run has not come to an end at which its outputs are known; nil if it has.
    private static func obstacle(_ result: BatchRun.Result, _ shutdown: ShutdownSignal) -> String? {
        if result.wasInterrupted || shutdown.level > .none { return "the run was interrupted" }
        if !result.isReadWhole { return "the inputs were not read to their end" }
        if result.openJobs > 0 || result.missing != nil { return "jobs of the run did not end" }
        return nil
    }

    private func delete(unless reason: String?) throws -> Counts {
        var counts = Counts()
        if finder.isEmpty { return counts }
        if let reason = reason ?? finder.obstacle {
            Terminal.error("megaton: no orphan was deleted, because \(reason). A later run finds the orphans again.")
            counts.wasInterrupted = shutdown.level > .none
            return counts
        }
        if let directory = finder.foreignDirectory {
            // Beside the lines of this run, a later one could not tell that they are of another.
            try finder.discard()
            let place = TextColumns.oneLine(directory)
            Terminal.error(
                "megaton: no orphan was deleted: all earlier outputs are in \(place), where this run has none, as if the "
                    + "ledger were that of a run with that directory as --output. They stay, also in later runs; delete "
                    + "by hand those that are not wanted."
            )
            return counts
        }
        let found = try present()
        if found.count == 0 {
            if !finder.hasFailures { try finder.discard() }
            return counts
        }
        if !isConfirmed {
            let rest = found.count - found.names.count
            let names = found.names.map { TextColumns.oneLine($0) }.joined(separator: ", ")
            let question =
                "megaton: delete \(Counted.files(found.count)) (\(Counted.bytes(found.bytes))) beneath "
                + "\(finder.output) that only an earlier run has made: \(names)\(rest > 0 ? " and \(rest) more" : "")?"
            guard Terminal.confirms(question, until: { shutdown.level > .none }) else {
                counts.declined = found.count
                counts.wasInterrupted = shutdown.level > .none
                Terminal.note("megaton: nothing was deleted. A later run finds the orphans again.")
                return counts
            }
        }
        try finder.forEachOrphan { name, output in
            if shutdown.level > .none {
                counts.wasInterrupted = true
                return false
            }
            delete(name, output, &counts)
            return true
        }
        if counts.wasInterrupted {
            Terminal.error("megaton: the deletion of orphans was interrupted; the same command again deletes the rest.")
            return counts
        }
        let unnamed = counts.kept + counts.failed - Self.named
        if unnamed > 0 { Terminal.error("megaton: \(Counted.of(unnamed, "more orphan")) not deleted.") }
        // Those that could not be deleted are tried again. A file that was changed is no output of a run any more.
        // So are those of jobs that failed now, once these are done.
        if counts.failed == 0 && !finder.hasFailures { try finder.discard() }
        return counts
    }

    /// The orphans that exist, and the names of the first ones.
    private func present() throws -> (count: Int, bytes: Int, names: [String]) {
        var found = (count: 0, bytes: 0, names: [String]())
        try finder.forEachOrphan { name, _ in
            var info = stat()
            guard lstat("\(finder.output)/\(name)", &info) == 0 else { return true }
            found.count += 1
            found.bytes += info.isRegular ? Int(info.st_size) : 0
            if found.names.count < Self.shown { found.names.append(name) }
            return shutdown.level == .none
        }
        return found
    }

    private func delete(_ name: String, _ output: EarlierLedger.Line.Output, _ counts: inout Counts) {
        let ending: OrphanFile.Ending
        do throws(OrphanFile.Unreached) {
            let file = try OrphanFile(finder.output, name: name)
            ending = file.delete(bytes: output.bytes, sha256: output.sha256)
        } catch {
            ending = error.ending
        }
        switch ending {
        case .deleted:
            counts.deleted += 1
            counts.bytes += output.bytes
        case .gone: break
        case .kept(let reason):
            if counts.kept + counts.failed < Self.named { report(name, "is kept", reason) }
            counts.kept += 1
        case .failed(let reason):
            if counts.kept + counts.failed < Self.named { report(name, "cannot be deleted", reason) }
            counts.failed += 1
        }
    }

    private func report(_ name: String, _ event: String, _ reason: String) {
        Terminal.error("megaton: the orphan \(TextColumns.oneLine("\(finder.output)/\(name)")) \(event): \(reason).")
    }
}

extension BatchOptions {
    /// Checks `--delete-orphans` with the options that go with it.
    ///
    /// - Throws: `ValidationError` if orphans cannot be found, or if the inputs are only a part.
    func checkOrphans(_ output: OutputTarget?, isConfirmed: Bool, deletes: Bool) throws {
        guard deletes else {
            if isConfirmed { throw ValidationError("--yes has no effect without --delete-orphans.") }
            return
        }
        if retryFailed != nil {
            throw ValidationError(
                "--delete-orphans does not go with --retry-failed: the failed jobs are a part of the inputs, so that "
                    + "the outputs of all others would count as orphans. Repeat the whole run."
            )
        }
        if output?.isShards == true {
            throw ValidationError(
                "--delete-orphans does not go with --output tar:DIR: the samples of shards stay. Write the shards anew "
                    + "into another directory."
            )
        }
        if case .objects(let url)? = output {
            throw ValidationError(
                "--delete-orphans is for files, and does not go with --output \(url): objects are not deleted."
            )
        }
        if let ledger, LedgerPath.descriptor(of: ledger) != nil {
            throw ValidationError(
                "--delete-orphans needs a ledger that is a file, as the lines of the earlier run show which outputs it "
                    + "has made, and --ledger \(ledger) is none."
            )
        }
    }
}
