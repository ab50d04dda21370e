internal import Foundation

/// Jobs that the leader has staged and not admitted yet, in the order of the stage: first the validated jobs, then the
/// others. Redis has all of them: a leader that fails loses this copy, and the stage is read again from its beginning.
struct StagedJobs: Sendable {
    /// The batch through whose intake a job came, empty for the public one, and the pushed JSON.
    typealias Raw = (batch: String, json: Data)

    var validated: [JobValidator.Candidate] = []
    var raw: [Raw] = []
    /// How often the stage in Redis has changed. If Redis has another number, its stage is not this one.
    var round = 0

    var count: Int { validated.count + raw.count }
    var isEmpty: Bool { count == 0 }
}
