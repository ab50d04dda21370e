internal import Foundation
internal import MegatonPipeline

/// Waits for as long as the work would take, with a pass of the host gate where it pretends to fetch.
struct SimulatedRunner: JobRunning {
    let gate: HostGate
    /// One of them for each job; none asks for no pass.
    let origins: [URL]
    let work: @Sendable () -> Duration
    /// Told the id of what begins.
    let onStart: @Sendable (String) -> Void

    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
        onStart(job.id ?? "")
        do throws(ImagePipeline.Error) {
            guard let origin = origins.randomElement() else {
                await pretend()
                return .done([])
            }
            let pass = try await gate.enter(origin)
            await pretend()
            await gate.leave(pass, .answered)
            return .done([])
        } catch {
            return .failed(error)
        }
    }

    private func pretend() async {
        try? await Task.sleep(for: work())  // Cancelled: whoever stopped the job does not look at its result.
    }
}
