internal import Logging
internal import MegatonPipeline
import Synchronization

/// Keeps a worker whose disk is full, read-only or broken from further jobs; other workers run them meanwhile.
///
/// A job whose outputs the disk did not take goes back to the queue, and its attempt does not count
/// (`RetryPolicy.waitsForDisk`). The worker claims nothing for a pause, and then one job at a time: if one writes its
/// outputs, or none fails like that for as long as the pause was, it goes on as before; otherwise the next pause is
/// twice as long. Without it, the worker whose jobs end soonest, as they fail, would take most of the queue.
final class DiskPause: Sendable {
    private let state = Mutex(State())

    private struct State {
        var length: Duration = .zero
        /// The end of the last pause; nil if a job has written its outputs since.
        var end: ContinuousClock.Instant?
        var reason: String?

        /// Whether the worker claims as before, as no job has found the disk full for long.
        func isOver(at now: ContinuousClock.Instant) -> Bool { end.map { now >= $0 + length } ?? true }
    }

    static let shortest: Duration = .seconds(10)
    static let longest: Duration = .seconds(60)

    private let first: Duration

    /// - Parameter first: the length of the first pause.
    init(first: Duration = DiskPause.shortest) { self.first = first }

    /// Jobs that may be in progress at this time; nil if they are not limited.
    func limit(at now: ContinuousClock.Instant = .now) -> Int? {
        state.withLock { state in state.isOver(at: now) ? nil : state.end.map { now < $0 ? 0 : 1 } }
    }

    /// The message of the job that found the disk full; nil if jobs are not limited.
    func reason(at now: ContinuousClock.Instant = .now) -> String? {
        state.withLock { $0.isOver(at: now) ? nil : $0.reason }
    }

    /// Notes that a job has found the disk full.
    ///
    /// - Returns: the length of the pause that begins; nil if there is one, which the job began before.
    func noteFull(_ reason: String, at now: ContinuousClock.Instant = .now) -> Duration? {
        state.withLock { state -> Duration? in
            if let end = state.end, now < end { return nil }
            state.length = state.end == nil ? first : min(state.length * 2, Self.longest)
            (state.end, state.reason) = (now + state.length, reason)
            return state.length
        }
    }

    /// Notes that a job has written its outputs.
    ///
    /// - Returns: whether jobs were limited. A job that ends during the pause has begun before it.
    func noteRoom(at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { state in
            guard let end = state.end, now >= end else { return false }
            (state.end, state.reason) = (nil, nil)
            return true
        }
    }
}

/// Runs jobs, and notes whether their outputs find the worker's disk full.
struct DiskWatchingRunner: JobRunning {
    let runner: any JobRunning
    let places: WorkerPlaces
    let logger: Logger

    func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
        let result = await runner.run(job, maximumFailureAge: maximumFailureAge, metrics: metrics)
        switch result {
        case .failed(let error) where error.isOfStorage:
            guard let pause = places.disk.noteFull(error.message) else { break }
            // Once more when the limit of one job ends.
            places.wakeAll(after: pause)
            places.wakeAll(after: pause * 2)
            logger.error(
                "outputs cannot be written: this worker claims no jobs for \(Int(pause.inSeconds)) s; repair its disk",
                metadata: [LogKey.error: "\(error.message)"]
            )
        case .done(let outputs) where outputs.contains { $0.path?.hasPrefix("s3:") == false }:
            guard places.disk.noteRoom() else { break }
            places.wakeAll()
            logger.notice("outputs can be written again; this worker claims jobs as before")
        case .done, .failed: break
        }
        return result
    }
}
