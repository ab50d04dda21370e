/// What Redis says of a write about a claimed job.
enum Verdict: String, Sendable {
    case ok
    /// It has ended already.
    case gone
    /// Another attempt is under way.
    case fenced
    /// The lease ran out; another attempt will be made.
    case noLease = "nolease"
    /// It has ended, or is put off, but its batch, whose keys are damaged, may not have counted it.
    case damaged

    /// Whether the job has ended, or been put off, by this write.
    var isHeard: Bool { self == .ok || self == .damaged }
}
