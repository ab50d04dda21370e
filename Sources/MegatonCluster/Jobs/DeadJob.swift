/// Content of a dead letter: the job and the reason of its death.
public struct DeadJob: Sendable, Hashable, Codable {
    /// Error code; `invalid_job` for a job that could not be read, `poison` for one that killed its workers.
    public var code: String
    public var message: String
    public var attempts: Int
    /// The worker that ended it; nil if no worker did.
    public var worker: String?
    public var batch: String?
    public var labels: Job.Labels?
    /// The job's JSON, or the first KiB of a pushed text that is not a valid job.
    public var job: String

    public init(
        code: String,
        message: String,
        attempts: Int = 0,
        worker: String? = nil,
        batch: String? = nil,
        labels: Job.Labels? = nil,
        job: String
    ) {
        self.code = code
        self.message = message
        self.attempts = attempts
        self.worker = worker
        self.batch = batch
        self.labels = labels
        self.job = job
    }
}
