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
            case valid(Job)
            case invalid(DeadJob)
        }

        /// For the ledger, where the job is not admitted.
        func outcome(_ status: JobOutcome.Status, code: String, message: String) -> JobOutcome {
            let source =
                switch verdict {
                case .valid(let job): String(job.source.prefix(JobOutcome.maximumSource))
                case .invalid(let dead): String(dead.job.prefix(256))
                }
            return JobOutcome(
                source: source,
                status: status,
                error: .init(code: code, message: message, retryable: false)
            )
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
            if let credential = job.credential {
                throw JobError("the workers of this version know no credentials, so not \"\(credential)\" either")
            }
            job.renditions = try renditions(of: job)
            job.preset = nil
            let id = job.id ?? Self.newID()
            job.id = id
            return Candidate(id: id, batch: job.batch ?? "", isOwn: !batch.isEmpty, verdict: .valid(job))
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
