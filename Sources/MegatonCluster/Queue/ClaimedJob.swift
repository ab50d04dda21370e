internal import Foundation

/// A job that is ours until its lease runs out.
struct ClaimedJob: Sendable {
    let id: String
    /// 1 for the first. Every write about the job carries it: it is the fence.
    let attempt: Int
    /// How often a worker died or fell silent with it.
    let stalls: Int
    /// As it was admitted.
    let json: Data
    let batch: String
    let isCancelled: Bool
}

/// What Redis says of a write about a claimed job.
enum Verdict: String, Sendable {
    case ok
    /// It has ended already.
    case gone
    /// Another attempt is under way.
    case fenced
    /// The lease ran out; another attempt will be made.
    case noLease = "nolease"
}
