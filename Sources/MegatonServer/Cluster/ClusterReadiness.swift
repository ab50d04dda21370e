package import MegatonCluster
internal import MegatonCore

/// Whether a queue can be used: asked at most once in ``interval``, however many checks ask, so that they cost the
/// control Redis next to nothing.
package actor ClusterReadiness {
    /// Shortest time between two questions.
    static let interval: Duration = .seconds(1)
    /// Time after which a check fails. Balancers wait for few seconds.
    static let timeLimit: Duration = .seconds(2)

    private let queue: @Sendable () async throws -> ShardedQueue
    private var last: (isReady: Bool, at: ContinuousClock.Instant)?
    /// The question that is asked now, for whose answer later checks wait.
    private var asking: Task<Bool, Never>?

    /// - Parameter queue: connects to the queue, unless it is connected.
    package init(_ queue: @escaping @Sendable () async throws -> ShardedQueue) { self.queue = queue }

    /// Whether the first shard, without which nothing works, answers.
    package func isReady() async -> Bool {
        if let last, last.at.duration(to: .now) < Self.interval { return last.isReady }
        if let asking { return await asking.value }
        // Unstructured, as checks at the same time share it: a client that gives up must not end it for the others. It
        // is safe because it ends by itself within the time limit and touches no state of this actor.
        let task = Task { [queue] in
            let isReady = await TimeLimit.run(Self.timeLimit) { () -> Bool in
                do {
                    _ = try await queue().now()
                    return true
                } catch {
                    return false
                }
            }
            return isReady ?? false
        }
        asking = task
        let isReady = await task.value
        (asking, last) = (nil, (isReady, .now))
        return isReady
    }
}
