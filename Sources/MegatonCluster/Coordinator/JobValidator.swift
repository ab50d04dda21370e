internal import Crypto
internal import Foundation
internal import MegatonPipeline

/// Decides what becomes of something that was pushed: a job in its full form, or the reason why not.
struct JobValidator: Sendable {
    let presets: [String: [Rendition]]

    /// What was pushed, looked at.
    struct Candidate: Sendable {
        let id: String
        /// Empty where it has none.
        let batch: String
        /// Whether it came through its batch's own intake.
        let isOwn: Bool
        let verdict: Verdict

        enum Verdict: Sendable {
            /// The job, and the JSON in its full form.
            case valid(Job, json: Data)
            case invalid(DeadJob)
        }

        /// For the ledger, where it is invalid.
        func outcome(_ dead: DeadJob) -> JobOutcome {
            JobOutcome(
                id: id,
                source: String(dead.job.prefix(256)),
                status: .failed,
                error: .init(code: dead.code, message: dead.message, retryable: false)
            )
        }

        /// Tells jobs of a batch apart that have the same source, renditions and output: 16 bytes.
        var digest: Data? {
            guard case .valid(var job, _) = verdict else { return nil }
            job.id = nil
            job.batch = nil
            job.priority = .normal
            job.attempts = 1
            return Data(SHA256.hash(data: job.json()).prefix(16))
        }
    }

    /// Bytes of an unreadable job that are kept to be looked at.
    private static let excerpt = 1024
    /// What `stage` puts in front of the rest of a job that was too large.
    private static let tooLargeMark: UInt8 = 1

    /// - Parameter batch: whose intake it came through; empty for the public one, where the job itself names its batch.
    func examine(_ json: Data, batch: String) -> Candidate {
        do throws(JobError) {
            if json.first == Self.tooLargeMark {
                throw JobError("a job's JSON may have \(Job.maximumSize) bytes; this one had more")
            }
            var job = try Job(json: json)
            if !batch.isEmpty {
                if let other = job.batch, other != batch {
                    throw JobError("the job names the batch \"\(other)\" but came through the intake of \"\(batch)\"")
                }
                job.batch = batch
            }
            // Most jobs come in their full form: what was pushed is what is kept then, and nothing is encoded again.
            let isFull = job.id != nil && job.preset == nil && (job.kind == .fetch || job.renditions != nil)
            job.renditions = try renditions(of: job)
            job.preset = nil
            let id = job.id ?? Self.newID()
            job.id = id
            return Candidate(
                id: id,
                batch: job.batch ?? "",
                isOwn: !batch.isEmpty,
                verdict: .valid(job, json: isFull ? json : job.json())
            )
        } catch {
            let text = String(decoding: json.prefix(Self.excerpt), as: UTF8.self)
            let dead = DeadJob(
                code: "invalid_job",
                message: error.message,
                batch: batch.isEmpty ? nil : batch,
                job: text
            )
            return Candidate(id: Self.newID(), batch: batch, isOwn: !batch.isEmpty, verdict: .invalid(dead))
        }
    }

    private func renditions(of job: Job) throws(JobError) -> [Rendition]? {
        guard job.kind == .process else {
            if job.renditions != nil || job.output != nil {
                throw JobError("a job of kind \"fetch\" has neither renditions nor an output")
            }
            return nil
        }
        if let name = job.preset {
            guard let preset = presets[name] else {
                let known = presets.keys.sorted().joined(separator: ", ")
                throw JobError("no preset \"\(name)\"; the coordinator knows \(known.isEmpty ? "none" : known)")
            }
            return preset
        }
        return job.renditions ?? Job.defaultRenditions
    }

    /// Sortable by time, with 64 random bits.
    private static func newID() -> String {
        let time = String(UInt64(Date().timeIntervalSince1970 * 1000), radix: 36)
        let random = String(UInt64.random(in: .min ... .max), radix: 36)
        return "j\(time)-\(random)"
    }
}
