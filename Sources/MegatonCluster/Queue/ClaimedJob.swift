internal import Foundation

/// A job that is ours until its lease runs out.
struct ClaimedJob: Sendable {
    let key: JobKey
    /// As its submitter named it: what outcomes and logs show. Scripts are given the key's text.
    var id: String { key.id }
    /// 1 for the first, and one more each time. Every write about the job carries it: it is the fence.
    let attempt: Int
    /// How many of the attempts do not count: the job was given back, or only waited for others.
    var free = 0
    /// The number of this attempt among those that count.
    var counted: Int { attempt - free }
    /// How often a worker died or fell silent with it.
    let stalls: Int
    /// Process deaths that its source is suspected of, in all jobs that name it.
    var deaths = 0
    /// Bytes of its JSON, if that is too large to be handed out; 0 otherwise.
    var excessSize = 0
    /// Whether its source has to run in a process of its own.
    var isSuspect: Bool { deaths == 2 }
    /// Whether its source has cost so many processes that no job runs it any more.
    var isQuarantined: Bool { deaths >= Self.deathLimit }
    /// Deaths after which a source is quarantined. The scripts have the same number.
    static let deathLimit = 3
    /// As it was admitted.
    let json: Data
    /// Empty if it has none: that of a requeued job has counted it already.
    let batch: String
    let isCancelled: Bool
}
