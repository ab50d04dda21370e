package import MegatonPipeline

/// Runs a job, without knowledge of leases and queues.
package protocol JobRunning: Sendable {
    /// Runs one attempt.
    ///
    /// - Parameters:
    ///   - maximumFailureAge: maximum age of a remembered failure that may answer the attempt; nil for any age.
    ///   - metrics: records the cost of the attempt, also if it fails.
    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result
}
