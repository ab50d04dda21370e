internal import Logging
internal import MegatonRedis

/// Ends a worker or coordinator when the number of shards of its queue has changed: it would not serve the new ones.
struct ShardCheck: Sendable {
    let queue: ShardedQueue
    let logger: Logger

    /// Interval between two checks. A queue that was never divided, as most are, costs less.
    static func interval(of layout: ShardLayout) -> Duration { layout.isStored ? .seconds(5) : .seconds(30) }
    /// Number of checks of which one reads the copies of all shards; the others read that of shard 0, which decides.
    static let rounds = 5

    /// Repeats the check until the task is cancelled.
    ///
    /// - Parameter interval: nil for that of the layout.
    /// - Returns: the reason for which this process must end; nil if the task was cancelled.
    func run(every interval: Duration? = nil) async -> RedisError? {
        let interval = interval ?? Self.interval(of: queue.layout)
        var refusal: RedisError?
        var round = 0
        await repeating(after: interval) {
            round += 1
            do throws(RedisError) {
                try await queue.checkLayout(onlyFirst: round % Self.rounds != 0)
            } catch {
                if error.code == .shardMismatch {
                    logger.critical("this process must end", metadata: [LogKey.error: "\(error)"])
                    refusal = error
                    return nil
                }
                logger.debug("cannot check the shards of the queue", metadata: [LogKey.error: "\(error)"])
            }
            return interval
        }
        return refusal
    }
}
