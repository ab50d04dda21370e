/// Completion of a claimed job, as it is reported to the queue.
package struct JobCompletion: Sendable {
    let job: ClaimedJob
    var outcome: JobOutcome
    /// Dead letter of a failed job.
    var dead: DeadLetter.Content?
    /// Numbers to add to the counters of its batch.
    var counters: [String: Int] = [:]
}

extension JobCompletion {
    /// Completion of a job that is done, without a dead letter and counters.
    package init(job: ClaimedJob, outcome: JobOutcome) {
        self.init(job: job, outcome: outcome, dead: nil)
    }
}
