/// Reply of Redis to a write about a claimed job.
package enum SettleResult: String, Sendable {
    case ok
    /// The job has already ended.
    case alreadySettled = "gone"
    /// Another attempt is under way.
    case fenced
    /// The lease ran out; another attempt will be made.
    case leaseExpired = "nolease"
    /// The write took effect, but the keys of the job's batch are damaged, so that the batch may not have counted the
    /// job.
    case damaged

    /// Whether this write took effect.
    var wasApplied: Bool { self == .ok || self == .damaged }
}
