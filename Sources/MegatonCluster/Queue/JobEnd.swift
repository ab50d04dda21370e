/// Completion of a claimed job, as it is reported to the queue.
struct JobEnd: Sendable {
    let job: ClaimedJob
    var outcome: JobOutcome
    /// Dead letter of a failed job.
    var dead: DeadJob?
    /// Numbers to add to the counters of its batch.
    var counters: [String: Int] = [:]
}
