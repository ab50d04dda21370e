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
