/// On whose account time in queues is noted.
///
/// Bound to the task that does a stage's work: what is waited in, and the ways that lead there, serve many and know
/// nothing of metrics.
struct QueueAccount: Sendable {
    @TaskLocal static var current: QueueAccount?

    let metrics: PipelineMetrics
    let stage: ImagePipeline.Error.Stage

    /// Notes time on a render thread.
    func rendered(for time: Duration) { metrics.add(time, to: \.rendering) }

    /// Notes a wait that is over, also where it was given up.
    ///
    /// - Parameter isForMemory: whichever stage needs it.
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
