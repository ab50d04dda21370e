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
        facts.isError = ["failed", "retry", "lost", "refused"].contains(facts.result)
        return facts
    }

    /// Facts about an attempt at a source of a pack, which is settled later, with others.
    func facts(ofSource job: Job, in active: ActiveJob, _ result: JobRunner.Result) -> SpanFacts {
        var facts = facts(of: active, id: job.id, source: job.source, result)
        switch result {
        case .done: facts.result = "done"
        case .failed(let error):
            facts.result = "failed"
            facts.fail(error.code.rawValue)
        }
        return facts
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
