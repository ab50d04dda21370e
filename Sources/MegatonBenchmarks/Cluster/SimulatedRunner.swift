import Foundation
import MegatonCluster
import MegatonPipeline

/// Sleeps for as long as the work would take, and holds a permit of the host rate limiter while it simulates a fetch.
struct SimulatedRunner: JobRunning {
    let limiter: HostRateLimiter
    /// Origins, one of which is chosen at random for each job; if empty, no permit is requested.
    let origins: [URL]
    let work: @Sendable () -> Duration
    /// Receives the id of each job that starts.
    let onStart: @Sendable (String) -> Void

    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
        onStart(job.id ?? "")
        do throws(ImagePipeline.Error) {
            guard let origin = origins.randomElement() else {
                await pretend()
                return .done([])
            }
            let permit = try await limiter.acquire(for: origin)
            await pretend()
            await limiter.release(permit, outcome: .answered)
            return .done([])
        } catch {
            return .failed(error)
        }
    }

    private func pretend() async {
        try? await Task.sleep(for: work())  // Cancelled: the result of a stopped job is not used.
    }
}
