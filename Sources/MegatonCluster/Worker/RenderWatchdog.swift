internal import Logging
internal import MegatonPipeline

/// Detects a render that hangs in its codec, until its task is cancelled.
///
/// A thread cannot be stopped from outside, so only the end of the process frees it. The process's jobs go to other
/// workers.
struct RenderWatchdog: Sendable {
    /// How long the longest render has been running; nil if none is.
    let longestRender: @Sendable () -> Duration?
    /// Maximum time of a render, which a healthy codec observes by itself.
    let timeLimit: Duration
    let logger: Logger
    /// Ends the process. Called at most once.
    let onHungRender: @Sendable () -> Void

    /// Interval between two checks.
    var interval: Duration = .seconds(1)

    /// Multiple of the time limit after which a render counts as hung.
    private static let tolerance = 3

    func run() async {
        await repeating {
            guard let longest = longestRender(), longest > timeLimit * Self.tolerance else { return interval }
            logger.critical("a render hangs in its codec; the process ends, and other workers take its jobs")
            onHungRender()
            return nil
        }
    }
}
