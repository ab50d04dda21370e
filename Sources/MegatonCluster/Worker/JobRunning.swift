internal import MegatonPipeline

/// Does what a job says, without knowing of leases and queues.
protocol JobRunning: Sendable {
    /// One attempt.
    ///
    /// - Parameters:
    ///   - maximumFailureAge: how old a remembered failure may be that the attempt accepts; nil for any age.
    ///   - metrics: what it cost, also where it fails.
    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result
}
