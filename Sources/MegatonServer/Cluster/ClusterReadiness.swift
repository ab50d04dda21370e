package import MegatonCluster
internal import MegatonCore

/// Whether a queue can be used: asked at most once in ``interval``, however many checks ask, so that they cost the
/// control Redis next to nothing.
package struct ClusterReadiness: Sendable {
    /// Shortest time between two questions.
    static let interval: Duration = .seconds(1)
    /// Time after which a check fails. Balancers wait for few seconds.
    static let timeLimit: Duration = .seconds(2)

    private let answer: RecentAnswer<Bool>

    /// - Parameter queue: connects to the queue, unless it is connected.
    package init(_ queue: @escaping @Sendable () async throws -> ShardedQueue) {
        answer = RecentAnswer(every: Self.interval) {
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
    }

    /// Whether the first shard, without which nothing works, answers.
    package func isReady() async -> Bool { await answer.value() }
}
