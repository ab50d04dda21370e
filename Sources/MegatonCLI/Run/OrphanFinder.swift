import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline
import Synchronization

/// Finds the outputs that only earlier runs have made, while a run with `--delete-orphans` makes its own. For a run
/// without the option it only counts them.
///
/// Before the run replaces the ledger, the lines of the earlier runs are saved beside it. They stay there until a run
/// has come to its end and its orphans are deleted, so that a killed run is repeated without a loss. The methods block.
final class OrphanFinder: Sendable {
    private struct State {
        var index = OutputIndex()
        var root: OutputRoot
        var jobs = 0
        /// Lines that are not jobs, or are refused: their outputs are unknown.
        var refused = 0
        var unreadable = 0
        /// Jobs of which some output has no path before the job is done.
        var withoutPaths = 0
        /// Outcomes of jobs that are not done.
        var unfinished = 0
        /// Hashes of their sources, whose earlier outputs stay.
        var failedSources: Set<UInt32> = []
        /// An argument in which no input was found.
        var emptyArgument: String?
        /// Links among the inputs that are not followed, with a slash at the end: the images behind them are unknown.
        var links: [String] = []
        var linkCount = 0
        /// Of the lines that were saved, and of those of the ledger.
        var places = (saved: EarlierPlace(), ledger: EarlierPlace())
    }

    let earlier: EarlierLedger
    /// The output directory, absolute.
    let output: String
    /// Whether orphans are deleted, so that the earlier lines are saved; otherwise they are counted.
    let isDeleting: Bool
    /// Directories besides the output directory to which jobs may write.
    private let others: [OutputRoot]
    private let state: Mutex<State>

    /// - Parameters:
    ///   - output: the output directory, absolute.
    ///   - others: directories besides it to which jobs may write, absolute.
    ///   - isDeleting: false if orphans are counted only.
    init(_ earlier: EarlierLedger, output: String, others: [String], isDeleting: Bool = true) {
        self.earlier = earlier
        self.isDeleting = isDeleting
        self.output = output
        self.others = others.map(OutputRoot.init)
        state = Mutex(State(root: OutputRoot(output)))
    }

    // MARK: - The earlier runs

    /// Reads the earlier lines, and saves those with outputs. Called while the ledger is locked, and before the run
    /// replaces it.
    ///
    /// - Parameter isStopped: asked for each line, of which there may be millions; true ends the reading.
    /// - Throws: `CLIError` if the ledger is that of another output directory, or a file cannot be read or written, or
    ///   130 if the reading was stopped.
    func prepare(unless isStopped: () -> Bool) throws {
        if isDeleting, try earlier.savedIsForeign() {
            throw CLIError.usage(
                "--delete-orphans saves the lines of the ledger as \(earlier.saved), and that file has something else. "
                    + "Move it, or name another --ledger."
            )
        }
        try state.withLock { state in
            try earlier.read { line, _, isSaved in
                try check(isStopped)
                // Saved lines stay: a later run finds their orphans.
                if isSaved && !isDeleting { return true }
                for output in line.outputs {
                    guard let path = output.path else { continue }
                    if let name = state.root.name(of: path) {
                        state.index.add(name, output, of: line)
                        if isSaved {
                            state.places.saved.add(name, ofSource: line.source)
                        } else {
                            state.places.ledger.add(name, ofSource: line.source)
                        }
                    } else if isDeleting, !others.contains(where: { $0.name(of: path) != nil }) {
                        throw elsewhere(path, isSaved)
                    }
                }
                return true
            }
            state.index.seal()
            if isDeleting { try save(state.index, state.root, isStopped) }
        }
    }

    private func elsewhere(_ path: String, _ isSaved: Bool) -> CLIError {
        let place = "has an output elsewhere than beneath --output \(output): \(path)."
        if isSaved {
            return CLIError.usage(
                "--delete-orphans: \(earlier.saved), which an earlier run has left, \(place) Finish that run with its "
                    + "own --output, or delete the file."
            )
        }
        return CLIError.usage(
            "--delete-orphans: the ledger \(earlier.ledger) \(place) Give the same --output as the run that wrote the "
                + "ledger, or another --ledger."
        )
    }

    private func check(_ isStopped: () -> Bool) throws {
        guard isStopped() else { return }
        throw CLIError(
            code: 130,
            message: "interrupted while the ledger of earlier runs was read, to find orphans; nothing was begun."
        )
    }

    /// Writes the lines whose outputs are the last ones of their names, without saved ones whose files are gone.
    private func save(_ index: OutputIndex, _ root: OutputRoot, _ isStopped: () -> Bool) throws {
        guard index.count > 0 else { return try discard() }
        let temporary = earlier.saved + ".tmp"
        do {
            unlink(temporary)
            let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
            guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
            // A ledger that others must not read has such a copy.
            var info = stat()
            if stat(earlier.ledger, &info) == 0 { fchmod(descriptor, info.st_mode & 0o666) }
            var block = Data()
            var number: UInt32 = 0
            try earlier.read { line, text, isSaved in
                try check(isStopped)
                var kept: Set<Int> = []
                var withPaths = 0
                for (position, output) in line.outputs.enumerated() {
                    guard let path = output.path else { continue }
                    withPaths += 1
                    guard let name = root.name(of: path) else { continue }
                    number &+= 1
                    let isLast = index.isOverfull || index.isLast(name, number: number)
                    if isLast && !(isSaved && Self.isGone(path)) { kept.insert(position) }
                }
                if kept.isEmpty { return true }
                block += kept.count == withPaths ? Data(text.utf8) : try Self.line(text, keeping: kept)
                block.append(10)
                if block.count >= Self.blockSize {
                    try file.write(contentsOf: block)
                    block = Data()
                }
                return true
            }
            try file.write(contentsOf: block)
            // The run replaces the ledger next: after a power cut these lines are the only ones.
            try file.synchronize()
            try file.close()
            guard rename(temporary, earlier.saved) == 0 else {
                throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
            }
        } catch let error as CLIError {
            unlink(temporary)
            throw error
        } catch {
            unlink(temporary)
            throw CLIError.output(
                "--delete-orphans: the lines of earlier runs cannot be saved as \(earlier.saved): "
                    + "\(Self.reason(error)). The ledger was not changed."
            )
        }
    }

    private static let blockSize = 1024 * 1024

    private static func reason(_ error: any Error) -> String {
        (error as? POSIXError).map { String(cString: strerror($0.code.rawValue)) } ?? CLIError.reason(error)
    }

    private static func isGone(_ path: String) -> Bool {
        var info = stat()
        return lstat(path, &info) != 0 && errno == ENOENT
    }

    /// The line with only some of its outputs.
    private static func line(_ text: String, keeping kept: Set<Int>) throws -> Data {
        var outcome = try JobOutcome(json: Data(text.utf8))
        outcome.outputs = outcome.outputs.enumerated().filter { kept.contains($0.offset) }.map(\.element)
        return outcome.json()
    }

    /// Deletes the saved lines: no orphan is left.
    func discard() throws {
        guard unlink(earlier.saved) == 0 || errno == ENOENT else {
            throw CLIError.output("\(earlier.saved) cannot be deleted: \(String(cString: strerror(errno))).")
        }
    }

    // MARK: - The present run

    /// Notes the outputs of jobs before they are submitted.
    func note(_ jobs: [JobBuilder.BuiltJob]) {
        state.withLock { state in
            for built in jobs {
                state.jobs += 1
                guard let job = built.job, job.refused == nil, !PlannedOutput.isUnreadable(job.source) else {
                    state.refused += 1
                    continue
                }
                state.places.saved.note(source: job.source)
                state.places.ledger.note(source: job.source)
                // An image that is an input now is no leftover, although an earlier run has made it.
                if let source = PlannedOutput.file(ofSource: job.source) {
                    Self.mark(source, &state, isOutput: false)
                    if let target = state.root.target(of: source) { state.index.mark(target) }
                }
                let outputs = (try? PlannedOutput.all(of: job)) ?? [.unknown("")]
                var isKnown = true
                for output in outputs {
                    switch output {
                    case .file(let path, _): Self.mark(path, &state)
                    case .unknown: isKnown = false
                    case .cached, .member: break
                    }
                }
                if !isKnown { state.withoutPaths += 1 }
            }
        }
    }

    /// Notes the outputs of jobs that have ended: some have no path before.
    func note(outcomes lines: [Data]) {
        let decoder = JSONDecoder()
        state.withLock { state in
            for line in lines {
                guard let outcome = try? decoder.decode(EarlierLedger.Line.self, from: line) else {
                    state.unfinished += 1
                    continue
                }
                // The line of the job of which it is a duplicate decides.
                let isKnownDuplicate =
                    outcome.status == .deduplicated && (outcome.error == nil || outcome.error?.code == "duplicate")
                if outcome.status != .done && !isKnownDuplicate {
                    state.unfinished += 1
                    state.failedSources.insert(OutputIndex.hash(ofSource: outcome.source))
                }
                for output in outcome.outputs {
                    if let path = output.path { Self.mark(path, &state) }
                }
            }
        }
    }

    /// Notes inputs so far that could not be read, or were left out.
    func note(_ reader: InputReader) {
        state.withLock { state in
            (state.unreadable, state.emptyArgument) = (reader.unreadable, reader.emptyArguments.first)
            if state.linkCount == reader.unfollowedCount { return }
            (state.links, state.linkCount) = (reader.unfollowedLinks.map { $0 + "/" }, reader.unfollowedCount)
        }
    }

    private static func mark(_ path: String, _ state: inout State, isOutput: Bool = true) {
        for name in state.root.names(of: path) {
            state.index.mark(name)
            if isOutput {
                state.places.saved.note(output: name)
                state.places.ledger.note(output: name)
            }
        }
    }

    /// Whether jobs failed whose earlier outputs stay.
    var hasFailures: Bool { state.withLock { !$0.failedSources.isEmpty } }

    /// Number of outputs that only the last run has made, whether or not their files are still there; nil if it is
    /// not known.
    var forgottenCount: Int? {
        // The outputs of a run with another directory stay.
        if obstacle != nil || foreignDirectory != nil { return nil }
        return state.withLock { $0.withoutPaths > 0 ? nil : $0.index.orphanCount }
    }

    /// Whether no earlier run has made an output.
    var isEmpty: Bool { state.withLock { $0.index.count == 0 } }

    /// The directory that has all outputs of earlier lines, if the present run has nothing to do with these.
    var foreignDirectory: String? {
        state.withLock { $0.places.saved.foreign ?? $0.places.ledger.foreign }
    }

    /// Why it is not known which outputs the inputs have; nil if it is.
    var obstacle: String? {
        state.withLock { state in
            if state.index.isOverfull {
                return "the ledger has more than \(OutputIndex.limit) outputs, which are not compared"
            }
            if state.index.variants.isOverfull {
                return "more than \(NameVariants.limit) outputs have names that differ from earlier ones in case alone"
            }
            if state.jobs == 0 { return "no image was found in the inputs, as if a disk were missing" }
            if let argument = state.emptyArgument {
                return "no image was found in \(TextColumns.oneLine(argument)), as if a disk were missing"
            }
            if state.linkCount > state.links.count {
                return "the inputs have more than \(InputReader.linkLimit) links that are not followed"
            }
            if state.unreadable > 0 {
                return "\(Counted.of(state.unreadable, "directory", "directories")) of the inputs could not be read"
            }
            if state.refused > 0 { return "\(Counted.of(state.refused, "input")) could not be read or was refused" }
            if state.withoutPaths > 0 && state.unfinished > 0 {
                return "jobs failed whose outputs have no names before they are made"
            }
            return nil
        }
    }

    /// Calls the body for each orphan, in the order of the ledger: an output that only earlier runs have made. Outputs
    /// of a job that has failed now are none: under another name or size, they are all that is left of its image. Nor
    /// are those of an image behind a link that is not followed, or whose target is missing.
    /// Neither is a file that a present output is too, under its name in another case. Asks the file system.
    ///
    /// - Parameter body: returns false to stop.
    /// - Throws: `CLIError` if the saved lines cannot be read.
    func forEachOrphan(_ body: (_ name: String, EarlierLedger.Line.Output) throws -> Bool) throws {
        // After the run, the ledger has the run's own lines.
        try earlier.readSaved { line, output, path in
            let orphan: (name: String, variants: [String], root: OutputRoot)? = state.withLock { state in
                if state.failedSources.contains(OutputIndex.hash(ofSource: line.source)) { return nil }
                if !state.links.isEmpty, let file = PlannedOutput.file(ofSource: line.source),
                    state.links.contains(where: { file.hasPrefix($0) })
                {
                    return nil
                }
                guard let name = state.root.name(of: path), state.index.isOrphan(name) else { return nil }
                return (name, state.index.variants.names(of: name), state.root)
            }
            guard let orphan, !orphan.root.isSameFile(orphan.name, as: orphan.variants) else { return true }
            return try body(orphan.name, output)
        }
    }
}
