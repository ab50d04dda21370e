/// Why a job is dead, and what it was.
public struct DeadJob: Sendable, Hashable, Codable {
    /// An error's code; `invalid_job` for what could not be read, `poison` for what killed its workers.
    public var code: String
    public var message: String
    public var attempts: Int
    /// Who buried it.
    public var worker: String?
    public var batch: String?
    public var labels: Job.Labels?
    /// The job's JSON, or the first KiB of what was pushed in its place.
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
