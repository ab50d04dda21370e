internal import Logging
internal import MegatonPipeline

/// Detects a render that hangs in its codec, until its task is cancelled.
///
/// A thread cannot be stopped from outside, so only the end of the process frees it. The job of the render fails
/// before, so that it does not count as a process death; the process's other jobs go to other workers.
struct RenderWatchdog: Sendable {
    let pipeline: ImagePipeline
    /// Maximum time of a render, which a healthy codec observes by itself.
    let timeLimit: Duration
    let logger: Logger

    /// Interval between two checks.
    var interval: Duration = .seconds(1)

    /// Multiple of the time limit after which a render counts as hung.
    private static let tolerance = 3
    /// Multiple after which those beside it count as hung, too: a codec that can be interrupted has stopped by then.
    /// Otherwise each of several such images would end a process of its own.
    private static let toleranceBeside = 1.5

    /// Waits until a render hangs, and fails it.
    ///
    /// - Returns: whether the process has to end; false if the task was cancelled.
    func run() async -> Bool {
        let limit = timeLimit * Self.tolerance
        var isHung = false
        await repeating {
            guard let longest = pipeline.longestRunningRender, longest > limit else { return interval }
            isHung = true
            return nil
        }
        if isHung {
            logger.critical(
                """
                a render hangs in its codec, which cannot be interrupted; its job fails, and the process ends: other \
                workers take its other jobs
                """
            )
            pipeline.abandonRenders(runningLongerThan: timeLimit * Self.toleranceBeside)
        }
        return isHung
    }
}
