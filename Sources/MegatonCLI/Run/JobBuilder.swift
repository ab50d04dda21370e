import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline

/// Creates the jobs of one batch from inputs, numbered in their order.
struct JobBuilder: Sendable {
    /// An input's job, or the reason why it has none.
    enum BuiltJob: Sendable {
        /// - Parameter hasUniqueID: whether its id was generated here, so that no other job of the batch has it.
        case job(Job, hasUniqueID: Bool)
        /// A line that is not a job. It is pushed unchanged: the coordinator reports its fault, so that the ledger has
        /// a line for it.
        case line(Data)

        /// Nil for a line that is not a job.
        var job: Job? {
            if case .job(let job, _) = self { job } else { nil }
        }

        var hasUniqueID: Bool {
            if case .job(_, let hasUniqueID) = self { hasUniqueID } else { false }
        }

        /// The JSON to push.
        var json: Data {
            switch self {
            case .job(let job, _): job.json()
            case .line(let line): line
            }
        }
    }

    /// The settings that the jobs of a batch share.
    struct Settings: Sendable {
        var batch: String
        var renditions: [Rendition]
        /// Preset of the coordinator in the place of `renditions`.
        var preset: String?
        /// Presets that are known here: jobs with one of these names get its renditions.
        var presets: [String: [Rendition]] = [:]
        /// Absolute path of the output directory; nil keeps the results in the cache.
        var output: String?
        /// Destination of the outputs if they are objects; nil for files.
        var objects: OutputBucket?
        /// Names of the outputs below the directory; nil for those of the inputs.
        var names: OutputNames?
        var attempts: Int
        var priority: Job.Priority
        /// Name of the credential that sources by http, https and s3 need. Jobs in lines name their own.
        var credential: String?
        /// Whether everything is fetched and rendered again.
        var reloads = false
        /// Whether origins are asked if cached originals are still valid.
        var refreshes = false
        /// An option of renditions that was given, for a message; nil if none was.
        var renditionOption: String?
        /// The samples that shards have; nil if the outputs are files or stay in the cache.
        var samples: KnownSamples?
        /// Whether jobs of equal work are done once.
        var deduplicates = false
        /// Seconds since 1970 before which no job begins that names no time of its own.
        var notBefore: Double?
        /// Facts that the outcomes have, for jobs that do not name theirs.
        var facts: [Job.OptionalFact]?
        /// Outputs of an earlier run, of which those of the jobs are marked; nil if no orphans are deleted.
        var earlier: OrphanFinder?
    }

    private let settings: Settings
    /// The output directory as the beginning of each job's template.
    private let outputURL: String?
    private var guardian: OutputGuard
    private var namer = OutputNamer()
    private var ownIDs = OwnIDs()
    private var count = 0
    /// Whether a job was found that the options of renditions do not change.
    private var hasReportedOwnRenditions = false
    /// Reports lines that are not jobs.
    var invalidLines = InvalidLineReporter()

    init(_ settings: Settings, _ guardian: OutputGuard) {
        self.settings = settings
        self.guardian = guardian
        outputURL = settings.objects?.url ?? settings.output.map { FileNames.fileURL("\($0)/") }
    }

    /// Creates the jobs of inputs that were read together.
    mutating func build(_ inputs: [Input]) -> [BuiltJob] {
        guardian.note(inputs.lazy.flatMap(OutputGuard.sources))
        let jobs = inputs.flatMap { build($0) }
        if let remark = guardian.takeRemark() { Terminal.error("megaton: \(remark)") }
        settings.earlier?.note(jobs)
        return jobs
    }

    /// Outputs of an earlier run, of which those of the jobs are marked.
    var earlier: OrphanFinder? { settings.earlier }

    /// - Returns: one job, or one for each source of a pack.
    private mutating func build(_ input: Input) -> [BuiltJob] {
        count += 1
        switch input {
        case .source(let url, let path):
            var job = job(url, path: path)
            guard admit(&job, isMade: true, path: path, identity: { url }) else { return [] }
            return [.job(job, hasUniqueID: true)]
        case .row(let row):
            var job = job(row.url, path: row.path, id: row.id, labels: row.labels)
            // Rows of one source may differ in labels.
            let isAdmitted = admit(&job, isMade: row.id == nil, path: row.path) {
                String(decoding: Job(source: row.url, labels: row.labels).json(), as: UTF8.self)
            }
            guard isAdmitted else { return [] }
            if row.id != nil { noteID(of: job, row.location) }
            return [.job(job, hasUniqueID: row.id == nil)]
        case .job(let line, let location): return build(line, location)
        case .refused(let line, let reason, let location):
            invalidLines.add(location, "is refused: \(reason)")
            return [refused(line, reason, location)]
        }
    }

    private mutating func build(_ line: Data, _ location: LineLocation) -> [BuiltJob] {
        let id = "\(settings.batch).\(count)"
        do throws(JobError) {
            var job = try Job(json: line)
            let hasUniqueID = job.id == nil
            if hasUniqueID { job.id = id }
            return finished(job, hasUniqueID: hasUniqueID, location).map { [$0] } ?? []
        } catch {
            guard let pack = Pack.line(line, id: id) else {
                invalidLines.add(location, error)
                guard settings.samples != nil else { return [.line(line)] }
                // With an id that is the same in each run.
                return [refused(String(decoding: line, as: UTF8.self), error.message, location)]
            }
            // One job for each source: each has an output and a line in the ledger, and `PackBuilder` forms packs.
            return pack.jobs.compactMap { finished($0, hasUniqueID: pack.hasMadeIDs, location) }
                + refused(pack, location)
        }
    }

    /// A line that is no job, for the ledger.
    private func refused(_ line: String, _ reason: String, _ location: LineLocation) -> BuiltJob {
        var job = job(String(line.prefix(JobOutcome.maximumSource)))
        job.refused = "\(location): \(reason)"
        Self.refuseUser(&job, at: location)
        identifyRefused(&job)
        return .job(job, hasUniqueID: true)
    }

    /// The sources of a pack that cannot be used. A message for all is reported once.
    private mutating func refused(_ pack: Pack.Line, _ location: LineLocation) -> [BuiltJob] {
        var last: String?
        return pack.refused.map { refused in
            if refused.message != last { invalidLines.add(location, "is refused: \(refused.message)") }
            last = refused.message
            var job = job(refused.source)
            job.id = refused.id
            job.refused = "\(location): \(refused.message)"
            if pack.hasMadeIDs { identifyRefused(&job) }
            return .job(job, hasUniqueID: pack.hasMadeIDs)
        }
    }

    /// - Returns: nil if a shard has the job.
    private mutating func finished(_ line: Job, hasUniqueID: Bool, _ location: LineLocation) -> BuiltJob? {
        var job = line
        if settings.samples != nil, line.output != nil {
            job.refused = "it names an output, and the run writes shards"
        }
        job.batch = settings.batch
        if settings.reloads { job.reload = true }
        if settings.refreshes { job.refresh = true }
        job.notBefore = job.notBefore ?? settings.notBefore
        job.facts = job.facts ?? settings.facts
        let isOwn = job.output != nil
        if job.kind == .process {
            if job.renditions == nil && job.preset == nil {
                setRenditions(of: &job)
            } else {
                reportOwnRenditions(location)
            }
            if let name = job.preset, let preset = settings.presets[name] {
                (job.preset, job.renditions) = (nil, preset)
            }
            if !isOwn { setOutput(Self.path(of: job.source), of: &job, hasOwnID: !hasUniqueID) }
        }
        if job.refused == nil { guardian.admit(&job, isOwn: isOwn) }
        if let reason = job.refused { invalidLines.add(location, "is refused: \(reason)") }
        if Self.refuseUser(&job, at: location) { invalidLines.add(location, "is refused: \(Self.userInSource)") }
        let path = Self.path(of: line.source)
        let isAdmitted = admit(&job, isMade: hasUniqueID, path: path) { identity(of: line, path) }
        guard isAdmitted else { return nil }
        if !hasUniqueID { noteID(of: job, location) }
        return .job(job, hasUniqueID: hasUniqueID)
    }

    /// The text that distinguishes a line without an id from others: its source, if it has no options that change its
    /// sample, as for the line of a list without JSON.
    private func identity(of line: Job, _ path: String) -> String {
        var plain = line
        plain.id = nil
        // Earlier versions compared all fields: samples that they have written are not made again.
        let former = String(decoding: plain.json(), as: UTF8.self)
        let formerID = ShardSample.id(path: path, identity: former)
        if settings.samples?.contains(ShardSample.key(of: formerID)) == true { return former }
        (plain.batch, plain.priority, plain.attempts) = (nil, .normal, Job(source: "").attempts)
        (plain.idempotencyKey, plain.idempotencyTTL, plain.notBefore) = (nil, nil, nil)
        (plain.reply, plain.traceparent, plain.batchSize, plain.requeuedFrom) = (nil, nil, nil, nil)
        (plain.reload, plain.refresh, plain.ignoresRememberedFailures) = (nil, nil, false)
        if plain == Job(source: line.source) { return line.source }
        return String(decoding: plain.json(), as: UTF8.self)
    }

    /// Reports a job that has the id of another one.
    private mutating func noteID(of job: Job, _ location: LineLocation) {
        guard job.refused == nil, let id = job.id, let first = ownIDs.note(job, at: location) else { return }
        invalidLines.add(
            location,
            "has the id \(FieldProblem.quoted(id)) of \(first), which is another job: one of the two fails as "
                + "id_conflict; give each job an id of its own"
        )
    }

    /// Gives a job whose sample goes to a shard an id that is the same in each run, unless it has one of its own.
    ///
    /// - Parameters:
    ///   - isMade: whether its id was made here.
    ///   - path: of its outputs.
    ///   - identity: the text that distinguishes it from other jobs.
    /// - Returns: false if a shard has the job, or if the run has had it before.
    private func admit(_ job: inout Job, isMade: Bool, path: String, identity: () -> String) -> Bool {
        guard let samples = settings.samples else { return true }
        if job.refused == nil, let problem = ShardSample.problem(of: job.renditions ?? []) { job.refused = problem }
        if job.refused != nil {
            if isMade { identifyRefused(&job) }
            return true
        }
        if isMade { job.id = ShardSample.id(path: path, identity: identity()) }
        if !isMade, let id = job.id, samples.hasOtherSource(than: job.source, for: id) {
            // The job fails, so that the ledger has a line for it.
            job.refused =
                "\(Self.idOfShards) \(FieldProblem.quoted(id)) already, from another source. Give the job another "
                + "id, or name another directory with --output tar:DIR"
            return true
        }
        let work = settings.deduplicates ? ShortDigest(of: job.workDigest) : nil
        return samples.admits(job.id ?? "", isMade: isMade, work: work)
    }

    /// Gives a refused job of a run with shards an id that is the same in each run, so that the report counts its line
    /// once. A source that had a password has none now.
    private func identifyRefused(_ job: inout Job) {
        guard settings.samples != nil, let reason = job.refused else { return }
        job.id = ShardSample.id(path: "refused", identity: "\(reason)\n\(job.source)")
    }

    /// Reports once that a given option has no effect on jobs with renditions of their own.
    private mutating func reportOwnRenditions(_ location: LineLocation) {
        guard let option = settings.renditionOption, !hasReportedOwnRenditions else { return }
        hasReportedOwnRenditions = true
        Terminal.error(
            "megaton: \(location) has renditions or a preset of its own: \(option) does not change such jobs."
        )
    }

    private func setRenditions(of job: inout Job) {
        job.preset = settings.preset
        job.renditions = settings.preset == nil ? settings.renditions : nil
    }

    /// The job of a source that has no options of its own.
    ///
    /// - Parameters:
    ///   - path: of the outputs in the output directory, without the rendition's name and the extension.
    ///   - id: that of a row of a table; nil for one that is made here.
    private mutating func job(
        _ source: String,
        path: String,
        id: String? = nil,
        labels: Job.Labels? = nil
    ) -> Job {
        var job = job(source)
        // Before the output, whose name may have them.
        if let id { job.id = id }
        job.labels = labels
        setRenditions(of: &job)
        setOutput(path, of: &job, hasOwnID: id != nil)
        job.credential = Self.isRemote(source) ? settings.credential : nil
        if job.refused == nil { guardian.admit(&job, isOwn: false) }
        Self.refuseUser(&job)
        return job
    }

    private func job(_ source: String) -> Job {
        var job = Job(
            id: "\(settings.batch).\(count)",
            source: source,
            batch: settings.batch,
            priority: settings.priority,
            attempts: settings.attempts
        )
        if settings.reloads { job.reload = true }
        if settings.refreshes { job.refresh = true }
        job.notBefore = settings.notBefore
        job.facts = settings.facts
        return job
    }

    /// Refuses a source with a user or a password, and removes these: a worker would refuse it too, but Redis and the
    /// ledger would keep the password until then.
    ///
    /// - Parameter location: the line of the job; nil if it has none.
    /// - Returns: whether the job was refused for that.
    @discardableResult
    private static func refuseUser(_ job: inout Job, at location: LineLocation? = nil) -> Bool {
        guard job.source.utf8.contains(UInt8(ascii: "@")),
            !["file", "data"].contains(job.source.prefix { $0 != ":" }.lowercased()),
            let start = job.source.range(of: "://")?.upperBound
        else { return false }
        let authority = job.source[start...].prefix { !"/?#\\".contains($0) }
        guard let at = authority.lastIndex(of: "@") else { return false }
        job.source = job.source[..<start] + "…" + job.source[at...]
        // Without an output it is not repeated: its source is not the one that was asked for.
        job.output = nil
        job.refused = "\(location.map(\.description) ?? FieldProblem.quoted(job.source)): \(userInSource)"
        return true
    }

    /// The beginning of the reason for an id that shards have from another source.
    static let idOfShards = "the shards have the id"

    /// The end of the reason for a source with a user or a password.
    static let userInSource =
        "a source must not carry a user or a password. Put them into a file for --credentials of the workers, and name "
        + "the source without them"

    private static func isRemote(_ source: String) -> Bool {
        ["http", "https", "s3"].contains(source.prefix { $0 != ":" }.lowercased())
    }

    /// Sets the output of a job that names none, or refuses a job whose output has no name.
    ///
    /// - Parameters:
    ///   - path: of the outputs in the output directory, without the rendition's name and the extension.
    ///   - hasOwnID: whether its id was not made here.
    private mutating func setOutput(_ path: String, of job: inout Job, hasOwnID: Bool) {
        guard let outputURL else { return }
        guard let names = settings.names else {
            let own = namer.path(path, for: job.source, job.renditions ?? [], template: { "\($0)-{name}.{ext}" })
            job.output = outputURL + FileNames.encoded(own) + "-{name}.{ext}"
            return
        }
        do throws(JobError) {
            let name = try names.template(path, for: job, hasOwnID: hasOwnID)
            job.output = outputURL + namer.path(name, for: job.source, job.renditions ?? [], adding: OutputNames.adding)
        } catch {
            job.refused = error.message
        }
    }

    private static func path(of source: String) -> String {
        if OutputTemplate.isDataURL(source) { return "data-\(OutputPath.hash(source))" }
        guard let url = URL(string: source) else { return OutputPath.hash(source) }
        switch url.scheme?.lowercased() {
        case "http", "https", "s3": return OutputPath.of(url)
        default:
            return OutputPath.of(OutputTemplate.components(of: url))
        }
    }
}

extension BatchOptions {
    /// The builder of jobs from inputs.
    ///
    /// - Parameters:
    ///   - roots: directories that outputs may go to; nil leaves that to the workers.
    ///   - files: files beside the inputs that no output may replace.
    ///   - delay: seconds before which no job begins.
    ///   - objects: destination of the outputs if they are objects; nil for files.
    ///   - samples: those of the shards, if the run writes some.
    ///   - earlier: outputs of an earlier run, to find its orphans.
    func jobBuilder(
        batch: String,
        _ selection: InputSelection,
        roots: [String]?,
        files: [String],
        delay: Double? = nil,
        objects: OutputBucket? = nil,
        samples: KnownSamples? = nil,
        earlier: OrphanFinder? = nil
    ) throws -> JobBuilder {
        let known = try presets.load()
        let preset = presets.preset.flatMap { known[$0] }
        let settings = JobBuilder.Settings(
            batch: batch,
            renditions: try preset ?? renditions.renditions(),
            preset: preset == nil ? presets.preset : nil,
            presets: known,
            output: samples == nil ? selection.output : nil,
            objects: objects,
            names: try name.map(OutputNames.init),
            attempts: attempts,
            priority: Job.Priority(rawValue: priority) ?? .normal,
            credential: credential,
            reloads: force,
            refreshes: refresh,
            renditionOption: givenRenditionOption,
            samples: samples,
            deduplicates: deduplicate,
            notBefore: delay.map { Date().timeIntervalSince1970 + $0 },
            facts: try wantedFacts(),
            earlier: earlier
        )
        return JobBuilder(settings, OutputGuard(selection, overwrites: overwrite, roots: roots, files: files))
    }
}
