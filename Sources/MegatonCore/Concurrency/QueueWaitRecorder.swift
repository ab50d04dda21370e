/// Receives the times that work spends in queues and on render threads.
package protocol QueueWaitSink: Sendable {
    /// Counts a wait before a stage.
    func addWait(_ time: Duration, before stage: ImageError.Stage)
    /// Counts a wait for memory, or for memory and a slot together, which is separate for all stages.
    func addMemoryWait(_ time: Duration)
    /// Counts time on a render thread.
    func addRendering(_ time: Duration)
}

/// Task-local recorder for time spent waiting in queues.
///
/// Bound to the task that runs a stage. The queues, and the code in between, serve many requests and know nothing of
/// metrics.
package struct QueueWaitRecorder: Sendable {
    @TaskLocal package static var current: QueueWaitRecorder?

    private let sink: any QueueWaitSink
    private let stage: ImageError.Stage

    package init(_ sink: any QueueWaitSink, stage: ImageError.Stage) {
        self.sink = sink
        self.stage = stage
    }

    /// Records time on a render thread.
    package func rendered(for time: Duration) { sink.addRendering(time) }

    /// Records a wait that has ended, also by cancellation.
    ///
    /// - Parameter isForMemory: whether it was for memory, which is counted separately for all stages.
    package func waited(since start: ContinuousClock.Instant, forMemory isForMemory: Bool = false) {
        let wait = start.duration(to: .now)
        if isForMemory { return sink.addMemoryWait(wait) }
        sink.addWait(wait, before: stage)
    }
}
