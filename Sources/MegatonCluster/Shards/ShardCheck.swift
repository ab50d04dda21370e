internal import Logging
internal import MegatonRedis

/// Ends a worker or coordinator when the number of shards of its queue has changed: it would not serve the new ones.
struct ShardCheck: Sendable {
    let queue: ShardedQueue
    let logger: Logger

    static let interval: Duration = .seconds(5)

    /// Repeats the check until the task is cancelled.
    ///
    /// - Returns: the reason for which this process must end; nil if the task was cancelled.
    func run(every interval: Duration = Self.interval) async -> RedisError? {
        var refusal: RedisError?
        await repeating(after: interval) {
            do throws(RedisError) {
                try await queue.checkLayout()
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
