import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Compares the outputs of jobs with the files that exist and with the earlier ledger, and estimates their cost. Asks
/// the file system, and so blocks.
struct PlanComparison: Sendable {
    private(set) var plan = Plan()
    private let earlier: EarlierLedger?
    /// Nil without an output directory.
    private var root: OutputRoot?
    /// Nil if the outputs are no shards.
    private let shards: ShardSurvey?
    private var index = OutputIndex()
    /// Hashes of the paths of outputs so far. Beyond the limit, repeated ones count again.
    private var paths: Set<UInt64> = []
    private static let pathLimit = 1_000_000
    private var figures = LedgerFigures()
    /// When the last line of the ledger was written.
    private var ledgerTime = 0.0
    /// Whether a job has outputs whose paths are known only when they are made.
    private var lacksPaths = false
    /// Sums of the estimate.
    private var cost = (output: 0.0, source: 0.0, render: 0.0, fetch: 0.0)
    private var known = (output: false, source: false, render: false, fetch: false)

    /// - Parameters:
    ///   - earlier: nil if no earlier ledger is known.
    ///   - output: the output directory, absolute; nil if there is none.
    ///   - shards: those of the directory, if the outputs are shards.
    init(_ earlier: EarlierLedger?, output: String?, shards: ShardSurvey? = nil) {
        self.earlier = earlier
        self.shards = shards
        root = shards == nil ? output.map(OutputRoot.init) : nil
    }

    /// Reads the earlier ledger.
    ///
    /// - Parameter progress: called with the number of lines so far.
    /// - Throws: `CLIError` if it cannot be read.
    mutating func prepare(_ progress: (_ lines: Int) -> Void) throws {
        guard let earlier else { return }
        ledgerTime = earlier.time
        if earlier.exists { plan.ledger = earlier.ledger }
        var lines = 0
        try earlier.read { line, _, isSaved in
            lines += 1
            progress(lines)
            if !isSaved { figures.add(line) }
            if let shards, line.status == .done, let id = line.id { shards.known.note(line.source, of: id) }
            for output in line.outputs {
                if let path = output.path, let name = root?.name(of: path) { index.add(name, output, of: line) }
            }
            return true
        }
        index.seal()
    }

    /// Counts a job and its outputs.
    ///
    /// - Parameter report: called with each output, whether a file is there, and its category; returns false to stop.
    /// - Returns: false if `report` did.
    /// - Throws: `CLIError` if the output of the job is not a template.
    mutating func add(
        _ job: Job,
        _ report: (PlannedOutput, _ exists: Bool, Plan.Category) throws -> Bool
    ) throws -> Bool {
        plan.jobs += 1
        if job.preset != nil { plan.presets += 1 }
        let outputs: [PlannedOutput]
        do throws(JobError) {
            outputs = shards == nil ? try PlannedOutput.all(of: job) : PlannedOutput.members(of: job)
        } catch {
            throw CLIError.usage("\(job.output ?? ""): \(error.message).")
        }
        let file = PlannedOutput.file(ofSource: job.source)
        var source = stat()
        let hasSource = file.map { stat($0, &source) == 0 } ?? false
        // An image that is an input now is no leftover.
        if let file { mark(file) }
        var isMade = false
        for output in outputs {
            if case .file(let path, _) = output, isRepeated(path) {
                plan.repeated += 1
                continue
            }
            plan.outputs += 1
            var info = stat()
            // No file is at the URL of an object.
            let exists = output.text.hasPrefix("/") && lstat(output.text, &info) == 0
            if exists { plan.existing += 1 }
            let (category, reason) = state(of: output, job, exists ? info : nil, hasSource ? source : nil)
            plan.count(category, reason)
            if category == .new || category == .replaced, let rendition = output.rendition {
                isMade = true
                addCost(of: rendition)
            }
            if try !report(output, exists, category) { return false }
        }
        if isMade { addCost(of: job.source, hasSource ? Int(source.st_size) : nil) }
        return true
    }

    /// Whether an earlier job of the plan makes the output too: a row that is there twice, or two jobs with one name.
    private mutating func isRepeated(_ path: String) -> Bool {
        let hash = OutcomeHistory.identity(of: Data(path.utf8)).low
        guard paths.count < Self.pathLimit else { return paths.contains(hash) }
        return !paths.insert(hash).inserted
    }

    @discardableResult
    private mutating func mark(_ path: String) -> OutputIndex.Entry? {
        // Without earlier outputs there is none to find, and links need not be resolved for each job.
        guard index.count > 0, let names = root?.names(of: path) else { return nil }
        var found: OutputIndex.Entry?
        for name in names { found = found ?? index.mark(name) }
        return found
    }

    private mutating func state(
        of output: PlannedOutput,
        _ job: Job,
        _ info: stat?,
        _ source: stat?
    ) -> (Plan.Category, Plan.Reason?) {
        guard case .file(let path, let rendition) = output else {
            if case .member = output { return (.new, nil) }
            if case .unknown = output { lacksPaths = true }
            return (.unknown, nil)
        }
        let entry = mark(path)
        guard let info else { return (.new, nil) }
        func replaced(_ reason: Plan.Reason) -> (Plan.Category, Plan.Reason?) {
            let types = AssetType.supported.union([.jxl])
            let type = types.first { $0.mediaType == rendition.format.mediaType }
            let mayReplace = (job.replace ?? .images).permitsReplacing(path, info, with: type)
            return mayReplace ? (.replaced, reason) : (.blocked, nil)
        }
        guard let entry, info.isRegular, entry.hasSize(Int(info.st_size)) else { return replaced(.file) }
        if !entry.isFrom(job.source) { return replaced(.source) }
        if !entry.mayHaveOptions(JobOutcome.Output.digest(ofOptions: rendition)) { return replaced(.options) }
        // A run leaves a file as it is if the new image is the same: a source that was only touched has newer times.
        // The last run has read it if it was not changed since the end of that run.
        let isNewer = source.map { $0.modified > info.modified && $0.modified > ledgerTime } ?? false
        if let source, !entry.mayHaveSource(ofSize: Int(source.st_size)) || isNewer { return replaced(.source) }
        // A file that is as old as its line is read only by the run, which compares the bytes.
        if info.modified > ledgerTime && !Self.has(path, entry) { return replaced(.file) }
        if job.reload == true { return replaced(.force) }
        if job.refresh == true && LedgerFigures.isRemote(job.source) { return replaced(.refresh) }
        return (.kept, nil)
    }

    private static func has(_ path: String, _ entry: OutputIndex.Entry) -> Bool {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return Checksum.sha256(ofFile: descriptor).map(entry.hasDigest) ?? false
    }

    /// Counts a line that is not a job, or is refused.
    mutating func addInvalid() { plan.invalid += 1 }

    // MARK: - Cost

    private mutating func addCost(of rendition: Rendition) {
        plan.renders += 1
        if let bytes = figures.bytes(of: rendition) {
            cost.output += bytes
            known.output = true
        }
        if let seconds = figures.seconds(of: rendition) {
            cost.render += seconds
            known.render = true
        }
    }

    private mutating func addCost(of source: String, _ size: Int?) {
        let isRemote = LedgerFigures.isRemote(source)
        if isRemote { plan.sourcesToFetch += 1 } else { plan.sourcesToRead += 1 }
        if let bytes = size.map(Double.init) ?? figures.sourceBytes(isRemote: isRemote) {
            cost.source += bytes
            known.source = true
        }
        if let seconds = figures.fetchSeconds(isRemote: isRemote) {
            cost.fetch += seconds
            known.fetch = true
        }
    }

    // MARK: - The end

    /// Counts the orphans, when all jobs were added, and sums up the cost.
    ///
    /// - Parameters:
    ///   - leftOut: inputs that were left out.
    ///   - isComplete: whether all inputs are known: otherwise no output counts as orphaned.
    ///   - report: called with the path of each orphan.
    /// - Throws: `CLIError` if the ledger cannot be read.
    mutating func finish(
        _ leftOut: LeftOutInputs,
        isComplete: Bool,
        _ report: (_ path: String, Plan.Category) throws -> Void
    ) throws {
        plan.excluded = leftOut.excluded
        plan.skipped = leftOut.skipped.count
        if figures.lines > 0, !plan.hasUnknownWork {
            var estimate = Plan.Estimate(lines: figures.lines)
            let isIdle = plan.renders == 0
            if known.output || isIdle { estimate.outputBytes = Int(exactly: cost.output.rounded()) }
            if known.source || isIdle { estimate.sourceBytes = Int(exactly: cost.source.rounded()) }
            if known.render || isIdle { estimate.renderSeconds = (cost.render * 1000).rounded() / 1000 }
            if known.fetch || isIdle { estimate.fetchSeconds = (cost.fetch * 1000).rounded() / 1000 }
            plan.estimate = estimate
        }
        if let shards {
            let bytes = known.output || plan.renders == 0 ? cost.output : nil
            plan.shards = Plan.Shards(shards, jobs: plan.jobs, outputs: plan.outputs, bytes: bytes)
        }
        guard let earlier, let root, plan.ledger != nil || index.count > 0, !index.isOverfull,
            !index.variants.isOverfull, isComplete, !lacksPaths
        else { return }
        (plan.orphaned, plan.orphanedBytes, plan.changed) = (0, 0, 0)
        try earlier.readOutputs { _, _, path in
            guard let name = root.name(of: path), let entry = index.takeOrphan(name) else { return true }
            var info = stat()
            guard lstat(path, &info) == 0, !root.isSameFile(name, as: index.variants.names(of: name)) else {
                return true
            }
            let isUnchanged = info.isRegular && entry.hasSize(Int(info.st_size))
            let category = isUnchanged ? Plan.Category.orphaned : .changed
            plan.count(category, nil)
            if isUnchanged { plan.orphanedBytes = (plan.orphanedBytes ?? 0) + Int(info.st_size) }
            try report(path, category)
            return true
        }
    }
}
