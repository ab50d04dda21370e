import Foundation
import MegatonCluster
import MegatonPipeline
import NIOCore
import Synchronization

/// Sleeps for as long as the work would take, and holds a permit of the host rate limiter while it simulates a fetch.
struct SimulatedRunner: JobRunning {
    let limiter: any FetchLimiting
    /// Origins, one of which is chosen at random for each job; if empty, no permit is requested.
    let origins: [URL]
    let work: @Sendable () -> Duration
    /// Runs the timers. Those of `Task.sleep` pass through two more threads, and take longer than a call of a script.
    let loop: any EventLoop
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
        let timer = loop.scheduleTask(in: TimeAmount(time)) {}
        await withTaskCancellationHandler {
            try? await timer.futureResult.get()  // Cancelled: the result of a stopped job is not used.
        } onCancel: {
            timer.cancel()
        }
    }
}

/// Durations of simulated renders, distributed like real ones: most are a little below the mean and a few far above
/// (log-normal).
struct SimulatedWork: Sendable {
    /// Mean duration, milliseconds.
    let mean: Double
    private let random = FastRandom()

    /// The standard deviation of the logarithm: one in a hundred takes 2.8 times the mean or longer.
    private static let spread = 0.5
    /// Maximum duration as a multiple of the mean.
    private static let maximumFactor = 10.0

    init(mean: Double) { self.mean = mean }

    func next() -> Duration {
        // Box and Muller, 1958. The first number is not zero, which has no logarithm.
        let (first, second) = (max(1e-12, random.next()), random.next())
        let normal = (-2 * log(first)).squareRoot() * cos(2 * .pi * second)
        let factor = exp(Self.spread * normal - Self.spread * Self.spread / 2)
        return .seconds(mean / 1000 * min(factor, Self.maximumFactor))
    }
}

/// Random numbers without a system call for each, which would take longer than a simulated source of a pack: SplitMix64
/// (Steele, Lea and Flood, 2014), whose state is only added to.
private final class FastRandom: Sendable {
    private let state = Atomic(UInt64.random(in: 0...UInt64.max))

    /// A number from 0 up to and not including 1.
    func next() -> Double {
        var bits = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        // A Double has 53 bits.
        return Double((bits ^ (bits >> 31)) >> 11) * 0x1p-53
    }
}
