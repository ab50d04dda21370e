internal import Foundation

/// What a leader has taken into its stage and not admitted yet, in the stage's order: first what it has looked at, then
/// what it will. Redis has all of it: who fails forgets this, and the stage is read again from its beginning.
struct StagedJobs: Sendable {
    /// The batch through whose intake it came, empty for the public one, and what was pushed.
    typealias Pushed = (batch: String, json: Data)

    var examined: [JobValidator.Candidate] = []
    var pushed: [Pushed] = []
    /// How often Redis' stage has changed. Another number there is another stage than this one.
    var round = 0

    var count: Int { examined.count + pushed.count }
    var isEmpty: Bool { count == 0 }
}
