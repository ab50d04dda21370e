import Foundation
import MegatonCluster

/// The fields of an outcome that a client counts; the line itself goes to the ledger unchanged.
struct OutcomeFields: Decodable {
    let status: JobOutcome.Status
    let source: String?
    let worker: String?
    let error: JobOutcome.Failure?
    let notes: [String]?
    let times: JobOutcome.Times?

    /// Nil if the line has not these fields. The others may be those of another version.
    init?(_ line: Data) {
        if let outcome = JobOutcome(plainJSON: line) {
            (status, source, worker) = (outcome.status, outcome.source, outcome.worker)
            (error, notes, times) = (outcome.error, outcome.notes, outcome.times)
            return
        }
        guard let fields = try? JSONDecoder().decode(Self.self, from: line) else { return nil }
        self = fields
    }
}
