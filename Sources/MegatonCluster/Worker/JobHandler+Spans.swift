internal import Foundation
internal import MegatonPipeline

/// The spans of attempts, for traces.
extension JobHandler {
    /// The end of an attempt.
    struct AttemptEnd: Sendable {
        /// Nil if it was stopped.
        let result: JobRunner.Result?
        /// Nil if the worker could not write about the job any more.
        let settlement: Settlement?
    }

    /// Results with the status of an error.
    private static let faults: Set<String> = ["failed", "retry", "lost", "refused"]

    /// Facts about an attempt at a job of its own.
    ///
    /// - Parameter parsed: nil if the job cannot be read.
    func facts(of job: ActiveJob, _ parsed: Job?, _ end: AttemptEnd) -> SpanFacts {
        var facts = facts(of: job, id: job.id, source: parsed?.source, end.result)
        facts.code =
            switch end.result {
            case .failed(let error): code(of: job, error: error)
            case nil where job.reason == .quarantined: Self.poison
            case .done, nil: nil
            }
        if let settlement = end.settlement {
            facts.result = settlement.result.wasApplied ? settlement.action : "refused"
        } else {
            facts.result = "lost"
        }
        facts.isError = Self.faults.contains(facts.result ?? "")
        return facts
    }

    /// Facts about an attempt at a source of a pack, which is settled later, with others.
    func facts(ofSource job: Job, in active: ActiveJob, _ result: JobRunner.Result) -> SpanFacts {
        var facts = facts(of: active, id: job.id, source: job.source, result)
        switch result {
        case .done: facts.result = "done"
        case .failed(let error):
            facts.result = self.result(of: job, in: active, after: error)
            facts.code = error.code.rawValue
        }
        facts.isError = Self.faults.contains(facts.result ?? "")
        return facts
    }

    /// How a source of a pack ends an attempt with an error, in the words for other jobs; see `decide`.
    private func result(of job: Job, in active: ActiveJob, after error: ImagePipeline.Error) -> String {
        switch active.reason {
        case .batchCancelled: return "cancelled"
        case .shutdown: return "released"
        case .leaseLost: return "lost"
        case .quarantined, nil: break
        }
        if error.hostTurn?.isGivenUp == true { return "failed" }
        if error.hostTurn != nil && !retry.asksForTooLong(error) { return "hold" }
        let delay = retry.delay(after: active.counted, of: job.attempts, error: error, free: active.free)
        if delay == nil { return "failed" }
        return retry.isFree(error, free: active.free) ? "wait" : "retry"
    }

    private func facts(of job: ActiveJob, id: String?, source: String?, _ result: JobRunner.Result?) -> SpanFacts {
        var facts = SpanFacts()
        facts.id = id
        facts.batch = job.batch.isEmpty ? nil : job.batch
        facts.host = source.flatMap { URL(string: $0) }.flatMap { SpanFacts.host(of: $0) }
        facts.attempt = job.counted
        if case .done(let outputs) = result { facts.bytes = outputs.reduce(0) { $0 + $1.bytes } }
        return facts
    }
}
