internal import Foundation

/// A job that this worker has claimed, until its lease runs out.
package struct ClaimedJob: Sendable {
    let key: JobKey
    /// The id that its submitter gave, as in outcomes and logs. Scripts receive the key's text.
    package var id: String { key.id }
    /// 1 for the first attempt, and one higher each time. Every write about the job carries it: it is the fencing
    /// token.
    let attempt: Int
    /// Attempts that do not count: the job was released, or only waited for others.
    var free = 0
    /// The number of this attempt among those that count.
    var counted: Int { attempt - free }
    /// How often a worker died or fell silent with this job.
    let stalls: Int
    /// Process deaths that its source is suspected of, over all jobs that name it.
    var deaths = 0
    /// Bytes of its JSON, if that is too large to be handed out; otherwise 0.
    var excessSize = 0
    /// Whether its source must run in a process of its own.
    var isSuspect: Bool { deaths == 2 }
    /// Whether its source has killed so many processes that no job runs it any more.
    var isQuarantined: Bool { deaths >= Self.deathLimit }
    /// Deaths after which a source is quarantined. The scripts contain the same number.
    static let deathLimit = 3
    /// The JSON that was admitted.
    let json: Data
    /// Name of its batch; empty if it has none. A requeued job has none, as the batch that it died in has counted it
    /// already.
    let batch: String
    let isCancelled: Bool
}
