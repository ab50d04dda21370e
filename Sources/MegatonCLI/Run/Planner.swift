import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import Synchronization

/// `megaton plan`, and `--dry-run`: prints the work of a run, and does none of it.
struct Planner: Sendable {
    /// The form of the output.
    enum Form: Sendable, Equatable {
        /// The outputs as they are found; sentences about them go to standard error.
        case list
        /// A summary, followed by at most so many outputs.
        case summary(shown: Int)
    }

    private struct State: Sendable {
        var comparison: PlanComparison
        /// The lines that follow the summary.
        var shown: [String] = []
        /// Number of lines that did not fit into `shown`.
        var omitted = 0
        var leftOut = LeftOutInputs()
    }

    private let options: BatchOptions
    private let selection: InputSelection
    private let objects: OutputBucket?
    private let earlier: EarlierLedger?
    private let roots: [String]?
    private let files: [String]
    private let remote: RemoteInputs?
    private let form: Form
    private let shards: ShardSurvey?
    private let canAllowTypes: Bool

    private static let readAtOnce = 500
    /// Maximum length of a source in a line, characters.
    private static let shownSource = 500

    /// Creates a planner.
    ///
    /// - Parameters:
    ///   - output: the output directory, absolute.
    ///   - objects: destination of the outputs if they are objects; nil for files.
    ///   - earlier: the ledger that the run would replace; nil if it is unknown.
    ///   - fileExtensions: file extensions that are selected in directories; nil if the command has no `--allow-type`,
    ///     for the default ones.
    ///   - roots: directories that outputs may go to; nil leaves that to the workers.
    ///   - files: files beside the inputs that no output may replace.
    ///   - remote: nil if no input is read over the network.
    ///   - shards: those of the output directory, if the outputs are shards.
    init(
        _ options: BatchOptions,
        output: String?,
        objects: OutputBucket? = nil,
        earlier: EarlierLedger?,
        form: Form,
        fileExtensions: Set<String>? = nil,
        roots: [String]? = nil,
        files: [String] = [],
        remote: RemoteInputs? = nil,
        shards: ShardSurvey? = nil
    ) {
        self.options = options
        selection = options.selection(
            output: output,
            objects: objects,
            fileExtensions: fileExtensions ?? InputReader.defaultFileExtensions
        )
        canAllowTypes = fileExtensions != nil
        self.objects = objects
        self.earlier = earlier
        self.form = form
        self.roots = roots
        self.files = files
        self.remote = remote
        self.shards = shards
    }

    /// - Throws: `CLIError` if an input or the ledger cannot be read; `ExitCode` 2 if a line is not a job, a name is
    ///   not UTF-8, or a job of the ledger is left out.
    func run() async throws {
        let builder = try options.jobBuilder(
            batch: "dry-run",
            selection,
            roots: roots,
            files: files,
            objects: objects,
            samples: shards?.known
        )
        let ledgers = ThreadPool(name: "megaton-plan", count: 1)
        defer { ledgers.stop() }
        let state = Mutex(State(comparison: PlanComparison(earlier, output: selection.output, shards: shards)))
        let progress = Mutex(progressReporter)
        defer { progress.withLock { $0.end() } }
        try await ledgers.run {
            try state.withLock { state in
                try state.comparison.prepare { lines in
                    progress.withLock { $0.show(ReadProgress(count: lines, step: "lines of the ledger read")) }
                }
            }
        }
        let reader = try ReadingThread(selection, builder, remote)
        var isWhole = false
        do {
            // Lines that are not jobs are reported when all have been read.
            defer { reader.stop() }
            while true {
                let goesOn = try await reader.next(Self.readAtOnce) { jobs in
                    try state.withLock { state in try jobs.allSatisfy { try add($0, &state) } }
                }
                guard let goesOn else {
                    isWhole = true
                    break
                }
                // Standard output has no reader any more: the sums would be those of a part.
                if !goesOn { return }
                let jobs = state.withLock { $0.comparison.plan.jobs }
                progress.withLock { $0.show(ReadProgress(count: jobs, step: "jobs compared")) }
            }
        }
        let leftOut = reader.leftOut
        // A retry has only the failed jobs: the outputs of all others are no orphans.
        // An argument without inputs may be a disk that is missing: run deletes no orphans then.
        let isComplete =
            isWhole && options.retryFailed == nil && reader.unreadable == 0 && reader.emptyArguments.isEmpty
        try await ledgers.run {
            try state.withLock { state in
                state.leftOut = leftOut
                var comparison = state.comparison
                state.comparison = Self.placeholder
                defer { state.comparison = comparison }
                let isComplete = isComplete && comparison.plan.invalid == 0 && comparison.plan.jobs > 0
                try comparison.finish(leftOut, isComplete: isComplete) { path, category in
                    show("\(Self.word(category)) \(TextColumns.oneLine(path))", &state)
                }
            }
        }
        progress.withLock { $0.end() }
        try print(state.withLock { $0 })
        reader.notRetried.report()
        let hasInvalid = state.withLock { $0.comparison.plan.invalid } > 0
        if hasInvalid || !reader.notRetried.isEmpty || reader.unreadable > 0 { throw ExitCode(2) }
    }

    /// Silent if the list of outputs goes to a terminal, and so shows the progress itself.
    private var progressReporter: ProgressReporter {
        let isListed = form == .list && !options.json && isatty(STDOUT_FILENO) == 1
        return ProgressReporter(isInteractive: Terminal.isInteractive, isSilent: isListed)
    }

    /// - Returns: false if standard output has no reader any more.
    private func add(_ built: JobBuilder.BuiltJob, _ state: inout State) throws -> Bool {
        guard let job = built.job, job.refused == nil else {
            state.comparison.addInvalid()
            // Others were reported with the location of their line.
            if let reason = built.job?.refused,
                reason.hasPrefix("\"") && reason.hasSuffix(JobBuilder.userInSource)
                    || reason.hasPrefix(JobBuilder.idOfShards)
            {
                Terminal.error("megaton: the job is refused: \(TextColumns.oneLine(reason)).")
            }
            return true
        }
        if PlannedOutput.isUnreadable(job.source) {
            state.comparison.addInvalid()
            Terminal.error(
                "megaton: \(TextColumns.oneLine(job.source)) is not UTF-8; a run would fail it as invalid_url."
            )
            return true
        }
        var comparison = state.comparison
        state.comparison = Self.placeholder
        defer { state.comparison = comparison }
        return try comparison.add(job) { output, exists, category in
            // Not before it is known to be shown: the text costs more than the comparison.
            func way() -> String {
                "\(TextColumns.oneLine(Self.name(job.source))) -> \(TextColumns.oneLine(output.text))"
            }
            if options.json { return true }
            guard form == .list else {
                show("\(Self.word(category)) \(way())", &state)
                return true
            }
            let mustStay = category == .blocked ? " that must stay" : ""
            let note = exists ? " (a file\(mustStay) exists there)" : ""
            return try Terminal.output(way() + note)
        }
    }

    /// Stands in the place of a comparison that is in use, so that it is not copied.
    private static var placeholder: PlanComparison { PlanComparison(nil, output: nil) }

    private func show(_ line: @autoclosure () -> String, _ state: inout State) {
        guard case .summary(let limit) = form, !options.json, limit > 0 else { return }
        if state.shown.count < limit { state.shown.append(line()) } else { state.omitted += 1 }
    }

    private static func word(_ category: Plan.Category) -> String {
        category.rawValue.padding(toLength: 9, withPad: " ", startingAt: 0)
    }

    private func print(_ state: State) throws {
        let plan = state.comparison.plan
        if options.json { try Terminal.output(JSONText.pretty(plan)) }
        state.leftOut.report(canAllowTypes: canAllowTypes)
        let lines = plan.lines(selection.output, areObjects: objects != nil)
        switch form {
        case .list:
            let count = (plan.presets > 0 ? "at least " : "") + Counted.of(plan.outputs, "output")
            let existing =
                objects == nil ? ", \(plan.existing) of them where a file exists already" : "; the store was not asked"
            Terminal.note(
                "megaton: \(count) of \(Counted.jobs(plan.jobs)) would be made\(existing); no image was fetched, and "
                    + "nothing was written."
            )
            if plan.ledger != nil { for line in lines.dropFirst() { Terminal.note(line) } }
        case .summary where options.json: return
        case .summary:
            for line in lines + state.shown {
                if try !Terminal.output(line) { return }
            }
            if state.omitted > 0 {
                Terminal.note("megaton: \(Counted.lines(state.omitted, "more")); --limit shows more.")
            }
        }
    }

    /// The name of a source to show: a local file as a path, another URL unchanged.
    private static func name(_ source: String) -> String {
        source.count > shownSource ? "\(source.prefix(shownSource - 1))…" : FileNames.localPath(source)
    }
}
