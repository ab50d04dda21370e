/// Reply of Redis to a write about a claimed job.
package enum Verdict: String, Sendable {
    case ok
    /// The job has already ended.
    case gone
    /// Another attempt is under way.
    case fenced
    /// The lease ran out; another attempt will be made.
    case noLease = "nolease"
    /// The write took effect, but the keys of the job's batch are damaged, so that the batch may not have counted the
    /// job.
    case damaged

    /// Whether this write took effect.
    var isHeard: Bool { self == .ok || self == .damaged }
}
