import Foundation
import MegatonCluster
import MegatonPipeline

/// Sleeps for as long as the work would take, and holds a permit of the host rate limiter while it simulates a fetch.
struct SimulatedRunner: JobRunning {
    let limiter: any FetchLimiting
    /// Origins, one of which is chosen at random for each job; if empty, no permit is requested.
    let origins: [URL]
    let work: @Sendable () -> Duration
    /// Receives the id of each job that starts.
    let onStart: @Sendable (String) -> Void

    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
        onStart(job.id ?? "")
        do throws(ImagePipeline.Error) {
            guard let origin = origins.randomElement() else {
                await simulateWork()
                return .done([])
            }
            let permit = try await limiter.acquire(for: origin)
            await simulateWork()
            await limiter.release(permit, outcome: .answered)
            return .done([])
        } catch {
            return .failed(error)
        }
    }

    /// Shorter work is not waited for: a timer takes longer than that, and the workers would be measured.
    private static let shortestWait: Duration = .microseconds(10)

    private func simulateWork() async {
        let time = work()
        if time < Self.shortestWait { return }
        try? await Task.sleep(for: time)  // Cancelled: the result of a stopped job is not used.
    }
}

/// Durations of simulated renders, distributed like real ones: most are a little below the mean and a few far above
/// (log-normal).
struct SimulatedWork: Sendable {
    /// Mean duration, milliseconds.
    let mean: Double

    /// The standard deviation of the logarithm: one in a hundred takes 2.8 times the mean or longer.
    private static let spread = 0.5
    /// Maximum duration as a multiple of the mean.
    private static let maximumFactor = 10.0

    func next() -> Duration {
        // Box and Muller, 1958. The first number is not zero, which has no logarithm.
        let (first, second) = (Double.random(in: 1e-12...1), Double.random(in: 0...1))
        let normal = (-2 * log(first)).squareRoot() * cos(2 * .pi * second)
        let factor = exp(Self.spread * normal - Self.spread * Self.spread / 2)
        return .seconds(mean / 1000 * min(factor, Self.maximumFactor))
    }
}
