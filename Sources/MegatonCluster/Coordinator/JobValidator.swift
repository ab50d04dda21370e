internal import Foundation
internal import MegatonPipeline

/// Validates pushed jobs: each becomes a job in its full form, or a dead letter with the reason.
struct JobValidator: Sendable {
    let presets: [String: [Rendition]]
    /// The webhooks that jobs may name; nil if none can be sent.
    var webhooks: WebhookRules?

    /// A pushed job, validated.
    struct Candidate: Sendable {
        let key: JobKey
        /// Name of its batch; empty if it has none.
        let batch: String
        /// Whether it came through its batch's own intake.
        let isOwn: Bool
        let verdict: Verdict
        /// Where the outcome of an invalid job is sent, and the size of its batch, if they could be read.
        var invalidReply: JobReply?
        var invalidBatchSize: Int?

        enum Verdict: Sendable {
            /// The job, and its JSON in the full form.
            case valid(Job, json: Data)
            /// A pack, whether all of its ids were made for it, and its sources that cannot be used: all of them if the
            /// fields that they share cannot be used.
            case pack(Pack, hasMadeIDs: Bool, invalid: [Pack.Invalid])
            /// The dead letter, and the job if it is readable and was refused all the same: a repetition may allow it.
            case invalid(DeadLetter.Content, source: String?, job: Job?)
        }

        /// Labels of the job; nil if it has none, or if those of an invalid job cannot be read.
        var labels: Job.Labels? {
            switch verdict {
            case .valid(let job, _): job.labels
            case .pack: nil
            case .invalid(let dead, _, _): dead.labels
            }
        }

        /// Where its outcome is sent; nil if it has no reply.
        var reply: JobReply? {
            switch verdict {
            case .valid(let job, _): job.reply
            case .pack(let pack, _, _): pack.shared.reply
            case .invalid: invalidReply
            }
        }

        /// Number of jobs with which its batch closes; nil if it does not say so.
        var batchSize: Int? {
            switch verdict {
            case .valid(let job, _): job.batchSize
            case .pack(let pack, _, _): pack.shared.batchSize
            case .invalid: invalidBatchSize
            }
        }

        /// Its idempotency key; nil if it has none.
        var entry: IdempotencyEntry? {
            guard case .valid(let job, _) = verdict else { return nil }
            return IdempotencyEntry(job)
        }

        /// Milliseconds since 1970 before which it does not begin; 0 if it may begin at once.
        var notBefore: Int {
            let time: Double? =
                switch verdict {
                case .valid(let job, _): job.notBefore
                case .pack(let pack, _, _): pack.shared.notBefore
                case .invalid: nil
                }
            return Int((time ?? 0) * 1000)
        }

        /// Outcome of an invalid job, for the ledger.
        func outcome(_ dead: DeadLetter.Content, source: String?, job: Job?) -> JobOutcome {
            var outcome = JobOutcome(
                id: key.id,
                source: source ?? String(dead.job.prefix(256)),
                status: .failed,
                error: .init(code: dead.code, message: dead.message, retryable: false),
                labels: dead.labels
            )
            outcome.job = job
            return outcome
        }

        /// As ``Job/workDigest``; nil if invalid.
        var digest: Data? {
            guard case .valid(let job, _) = verdict else { return nil }
            return job.workDigest
        }

        /// As ``Job/contentDigest``; nil if invalid.
        var content: String? {
            guard case .valid(let job, _) = verdict else { return nil }
            return job.contentDigest
        }
    }

    /// Bytes of an unreadable job that are kept for inspection.
    static let excerpt = 1024
    /// Maximum number of presets that a message names.
    private static let shownPresets = 32

    /// A job that was too large, as the script `stage` leaves it: a mark, the beginning, a line end and the size.
    private struct CutJob {
        private static let mark: UInt8 = 1

        let beginning: Data
        /// Nil if an earlier version has staged the job.
        let size: Int?

        /// Nil for any other job.
        init?(_ json: Data) {
            guard json.first == Self.mark else { return nil }
            let content = json.dropFirst()
            beginning = Data(content.prefix(JobValidator.excerpt))
            size = Int(String(decoding: content.dropFirst(JobValidator.excerpt + 1), as: UTF8.self))
        }

        var message: String {
            let limit = Job.maximumSize
            let added = "with the id, the batch and the options that megaton submit adds to a line"
            return size.map { "the job has \($0) bytes of JSON, \(added); allowed are \(limit)" }
                ?? "the job has more than \(limit) bytes of JSON, \(added)"
        }
    }

    /// Validates a pushed job.
    ///
    /// - Parameter intake: the batch through whose intake it came, or the name of a public intake, whose jobs name
    ///   their batch themselves. Its priority is that of the jobs that do not ask for another one than `normal`.
    func validate(_ json: Data, batch intake: String) -> Candidate {
        let priority = PublicIntake.priority(of: intake)
        let batch = priority == nil ? intake : ""
        let isOwn = !batch.isEmpty
        let cut = CutJob(json)
        do throws(JobError) {
            if let cut { throw JobError(cut.message) }
            if let pushed = try Pack.read(json, makeID: Self.newID) {
                return try validate(pushed, batch: batch, priority: priority)
            }
            var job = try Job(json: json)
            try assign(batch, to: &job)
            // Most jobs arrive in their full form: the pushed JSON is then kept, and nothing is encoded again.
            var isFull = job.id != nil && job.preset == nil && (job.kind == .fetch || job.renditions != nil)
            if let priority, priority != .normal, job.priority == .normal {
                job.priority = priority
                isFull = false
            }
            job.renditions = try renditions(of: job)
            try requireOwnPaths(job)
            try Self.requireLabels(job)
            try requireWebhook(job.reply)
            job.preset = nil
            let id = job.id ?? Self.newID()
            job.id = id
            return Candidate(
                key: JobKey(batch: job.batch ?? job.requeuedFrom, id: id),
                batch: job.batch ?? "",
                isOwn: isOwn,
                verdict: .valid(job, json: isFull ? json : job.json())
            )
        } catch {
            let readable = cut?.beginning ?? json
            let text = String(decoding: readable.prefix(Self.excerpt), as: UTF8.self)
            let identity = JobIdentity(readable, isCut: cut != nil)
            let batch = batch.isEmpty ? identity.batch ?? "" : batch
            let id = identity.id ?? Self.newID()
            if cut == nil, let refused = Pack.refused(json, id: id, message: error.message) {
                let none = Pack(sharing: Job(id: id, source: ""), sources: [])
                return Candidate(
                    key: JobKey(batch: batch, id: id),
                    batch: batch,
                    isOwn: isOwn,
                    verdict: .pack(none, hasMadeIDs: false, invalid: refused)
                )
            }
            let dead = DeadLetter.Content(
                code: "invalid_job",
                message: error.message,
                batch: batch.isEmpty ? nil : batch,
                labels: identity.labels,
                job: text
            )
            return Candidate(
                key: JobKey(batch: batch, id: id),
                batch: batch,
                isOwn: isOwn,
                verdict: .invalid(dead, source: identity.source, job: Self.refusedJob(json)),
                invalidReply: identity.reply,
                invalidBatchSize: identity.batchSize
            )
        }
    }

    private func validate(
        _ pushed: Pack.Pushed,
        batch: String,
        priority: Job.Priority?
    ) throws(JobError) -> Candidate {
        var shared = pushed.pack.shared
        try assign(batch, to: &shared)
        if let priority, priority != .normal, shared.priority == .normal { shared.priority = priority }
        shared.renditions = try renditions(of: shared)
        try requireOwnPaths(shared)
        try requireWebhook(shared.reply)
        shared.preset = nil
        var (pack, invalid) = (Pack(sharing: shared, sources: []), pushed.invalid)
        for source in pushed.pack.sources {
            let job = pack.job(source)
            do throws(JobError) {
                if source.output != nil, shared.kind == .fetch { _ = try renditions(of: job) }
                if source.output != nil { try requireOwnPaths(job) }
                try Self.requireLabels(job)
                pack.sources.append(source)
            } catch {
                invalid.append(Pack.Invalid(id: source.id, json: job.json(), message: error.message))
            }
        }
        try pack.requireSplitSize()
        return Candidate(
            key: JobKey(batch: shared.batch ?? shared.requeuedFrom, id: shared.id ?? ""),
            batch: shared.batch ?? "",
            isOwn: !batch.isEmpty,
            verdict: .pack(pack, hasMadeIDs: pushed.hasMadeIDs, invalid: invalid)
        )
    }

    private func assign(_ batch: String, to job: inout Job) throws(JobError) {
        if batch.isEmpty { return }
        if let other = job.batch, other != batch {
            throw JobError("batch is \"\(other)\", but the job came through the intake of \"\(batch)\"")
        }
        job.batch = batch
    }

    /// A job without a fault of its own; nil for any other. Either this coordinator cannot use it, as it does not know
    /// its preset, for example, or its client refused it because of its output. A refused line of a list has no output:
    /// it is not a job at all.
    private static func refusedJob(_ json: Data) -> Job? {
        guard json.count <= JobOutcome.maximumJobSize else { return nil }
        if let job = try? Job(json: json) {
            // No job has both, whatever its form: see `renditions(of:)`.
            return job.kind == .fetch && (job.renditions != nil || job.output != nil) ? nil : job
        }
        guard var job = try? Job(json: json, wasValidated: true), job.refused != nil, job.output != nil else {
            return nil
        }
        job.refused = nil
        return job.validationError == nil ? job : nil
    }

    private func renditions(of job: Job) throws(JobError) -> [Rendition]? {
        guard job.kind == .process else {
            if job.renditions != nil || job.output != nil {
                let field = job.renditions != nil ? "renditions" : "output"
                throw JobError(
                    "\(field) is for kind \"process\" only; kind \"fetch\" has neither renditions nor output"
                )
            }
            return nil
        }
        if let name = job.preset {
            guard let preset = presets[name] else {
                let known = presets.keys.sorted()
                let near = Spelling.nearest(to: name, among: known).map { "; did you mean \"\($0)\"?" } ?? ""
                let some = known.prefix(Self.shownPresets).joined(separator: ", ")
                let allowed = known.isEmpty ? "it has no presets; name a file with --presets" : "allowed are \(some)"
                throw JobError(
                    "preset is \(FieldProblem.quoted(name)), which the coordinator does not know; \(allowed)\(near)"
                )
            }
            return preset
        }
        return job.renditions ?? Job.defaultRenditions
    }

    /// - Throws: `JobError` if two renditions would have the same output path.
    private func requireOwnPaths(_ job: Job) throws(JobError) {
        guard let output = job.output, let renditions = job.renditions, renditions.count > 1,
            try !OutputTemplate(output).distinguishes(renditions)
        else { return }
        throw JobError(
            "output is \(FieldProblem.quoted(output)), the same path for several of the \(renditions.count) renditions"
                + "; add {name} to it"
        )
    }

    /// - Throws: `JobError` if the output names a label that the job does not have.
    private static func requireLabels(_ job: Job) throws(JobError) {
        // The search is faster than reading the template, and few outputs have labels.
        guard let output = job.output, output.contains("{label."),
            let problem = try OutputTemplate(output).problem(with: job.labels)
        else { return }
        throw JobError(problem)
    }

    /// The target of a job's outcome, as an argument of scripts; empty for a job without a reply, and for an invalid
    /// job whose webhook may not be named.
    func target(of reply: JobReply?) -> String {
        guard let reply, problem(of: reply) == nil else { return "" }
        return reply.target
    }

    /// - Throws: `JobError` if the reply is a webhook that may not be named.
    private func requireWebhook(_ reply: JobReply?) throws(JobError) {
        if let reply, let problem = self.problem(of: reply) { throw JobError("reply.webhook \(problem)") }
    }

    private func problem(of reply: JobReply) -> String? {
        guard let webhook = reply.webhook else { return nil }
        guard let webhooks else {
            return "cannot be used, as the coordinator has no key to sign requests with (--webhook-key)"
        }
        return webhooks.problem(ofWebhook: webhook)
    }

    /// A new id, sortable by time, with 64 random bits.
    private static func newID() -> String {
        let time = String(UInt64(Date().timeIntervalSince1970 * 1000), radix: 36)
        let random = String(UInt64.random(in: .min ... .max), radix: 36)
        return "j\(time)-\(random)"
    }
}
