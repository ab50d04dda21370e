internal import Logging
internal import MegatonRedis

/// Ends a worker or coordinator when the number of shards of its queue has changed: it would not serve the new ones.
struct ShardCheck: Sendable {
    let queue: ShardedQueue
    let logger: Logger
    /// Whether the workers of a queue end one after the other: if all drained at once, the queue would pause meanwhile.
    var isSpread = false

    /// Interval between two checks. A queue that was never divided, as most are, costs less.
    static func interval(of layout: ShardLayout) -> Duration { layout.isStored ? .seconds(5) : .seconds(30) }
    /// Number of checks of which one reads the copies of all shards; the others read that of shard 0, which decides.
    static let rounds = 5

    /// Time between the ends of two workers, on average, and the longest delay.
    private static let delayPerWorker: Duration = .milliseconds(100)
    private static let longestDelay: Duration = .seconds(30)

    /// The time for which a worker works on after a change.
    ///
    /// - Parameters:
    ///   - workers: number of workers of the queue.
    ///   - random: from 0 to 1.
    static func delay(workers: Int, random: Double) -> Duration {
        min(delayPerWorker * max(workers - 1, 0), longestDelay) * random
    }

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
                    refusal = error
                    return nil
                }
                logger.debug("cannot check the shards of the queue", metadata: [LogKey.error: "\(error)"])
            }
            return interval
        }
        if let refusal {
            if isSpread { await wait() }
            logger.critical("this process must end", metadata: [LogKey.error: "\(refusal)"])
        }
        return refusal
    }

    private func wait() async {
        var workers = 1
        do throws(RedisError) {
            workers = try await queue.first.workerCount()
        } catch {
            // Redis is away: this worker ends at once.
        }
        // Cancelled: the worker ends anyway.
        try? await Task.sleep(for: Self.delay(workers: workers, random: .random(in: 0...1)))
    }
}
