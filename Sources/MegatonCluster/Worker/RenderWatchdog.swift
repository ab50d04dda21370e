internal import Logging
internal import MegatonPipeline

/// Detects a render that hangs in its codec, until its task is cancelled.
///
/// A thread cannot be stopped from outside, so only the end of the process frees it. The process's jobs go to other
/// workers.
struct RenderWatchdog: Sendable {
    let pipeline: ImagePipeline
    /// Maximum time of a render, which a healthy codec observes by itself.
    let timeLimit: Duration
    let logger: Logger
    /// Ends the process.
    let onHungRender: @Sendable () -> Void

    private static let interval: Duration = .seconds(1)
    /// Multiple of the time limit after which a render counts as hung.
    private static let tolerance = 3

    func run() async {
        await every(Self.interval) {
            if let longest = pipeline.longestRunningRender, longest > timeLimit * Self.tolerance {
                logger.critical("a render hangs in its codec; the process ends, and other workers take its jobs")
                onHungRender()
            }
        }
    }
}
