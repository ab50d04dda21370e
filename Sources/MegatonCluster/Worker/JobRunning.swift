internal import MegatonPipeline

/// Does what a job says, without knowing of leases and queues.
protocol JobRunning: Sendable {
    /// One attempt.
    ///
    /// - Parameter metrics: what it cost, also where it fails.
    func run(_ job: Job, metrics: PipelineMetrics) async -> JobRunner.Result
}
