internal import Foundation

/// A job that is ours until its lease runs out.
struct ClaimedJob: Sendable {
    let id: String
    /// 1 for the first, and one more each time. Every write about the job carries it: it is the fence.
    let attempt: Int
    /// How many of the attempts do not count: the job was given back, or only waited for others.
    var free = 0
    /// The number of this attempt among those that count.
    var counted: Int { attempt - free }
    /// How often a worker died or fell silent with it.
    let stalls: Int
    /// As it was admitted.
    let json: Data
    let batch: String
    let isCancelled: Bool
}
