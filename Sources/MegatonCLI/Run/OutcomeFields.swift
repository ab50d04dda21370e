import Foundation
import MegatonCluster

/// The fields of an outcome that a client counts; the line itself goes to the ledger unchanged.
struct OutcomeFields {
    let status: JobOutcome.Status
    let source: String?
    let worker: String?
    let error: JobOutcome.Failure?
    let notes: [String]?
    /// Nil also if another version has written others.
    let times: JobOutcome.Times?

    /// The fields without which an outcome is not counted. The others may be those of another version.
    private struct Known: Decodable {
        let status: JobOutcome.Status
        let source: String?
        let worker: String?
        let error: JobOutcome.Failure?
        let notes: [String]?
    }

    private struct Further: Decodable {
        let times: JobOutcome.Times?
    }

    /// Nil if the line has not these fields.
    init?(_ line: Data) {
        if let outcome = JobOutcome(plainJSON: line) {
            (status, source, worker) = (outcome.status, outcome.source, outcome.worker)
            (error, notes, times) = (outcome.error, outcome.notes, outcome.times)
            return
        }
        guard let known = try? JSONDecoder().decode(Known.self, from: line) else { return nil }
        (status, source, worker) = (known.status, known.source, known.worker)
        (error, notes) = (known.error, known.notes)
        times = (try? JSONDecoder().decode(Further.self, from: line))?.times
    }
}
