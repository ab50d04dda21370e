internal import Foundation

/// Jobs that the leader has staged and not admitted yet, in the order of the stage: first the validated jobs, then the
/// others. Redis has all of them: a leader that fails loses this copy, and the stage is read again from its beginning.
struct StagedJobs: Sendable {
    /// The batch through whose intake a job came, empty for the public one, and the pushed JSON.
    typealias Pushed = (batch: String, json: Data)

    var examined: [JobValidator.Candidate] = []
    var pushed: [Pushed] = []
    /// How often the stage in Redis has changed. If Redis has another number, its stage is not this one.
    var round = 0

    var count: Int { examined.count + pushed.count }
    var isEmpty: Bool { count == 0 }
}
