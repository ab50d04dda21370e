/// Task-local recorder for time spent waiting in queues.
///
/// Bound to the task that runs a stage. The queues, and the code in between, serve many requests and know nothing of
/// metrics.
struct QueueAccount: Sendable {
    @TaskLocal static var current: QueueAccount?

    let metrics: PipelineMetrics
    let stage: ImagePipeline.Error.Stage

    /// Records time on a render thread.
    func rendered(for time: Duration) { metrics.add(time, to: \.rendering) }

    /// Records a wait that has ended, also by cancellation.
    ///
    /// - Parameter isForMemory: whether it was for memory, which is counted separately for all stages.
    func waited(since start: ContinuousClock.Instant, forMemory isForMemory: Bool = false) {
        let wait = start.duration(to: .now)
        metrics.updateWaits { waits in
            if isForMemory { return waits.memory += wait }
            switch stage {
            case .load: waits.load += wait
            case .decode: waits.decode += wait
            case .process: waits.process += wait
            case .encode, .store: break
            }
        }
    }
}
