/// How a claimed job ended, as the queue is told.
struct JobEnd: Sendable {
    let job: ClaimedJob
    var outcome: JobOutcome
    /// Of one that failed.
    var dead: DeadJob?
    /// Added to its batch.
    var counters: [String: Int] = [:]
}
