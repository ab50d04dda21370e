internal import Foundation
public import MegatonRedis

extension JobQueue {
    /// The jobs of the queue that are not ready before a time: they failed and are to be tried again, or their host is at
    /// its limit.
    public struct Delayed: Sendable, Equatable {
        public var count: Int
        /// Seconds until the first of them is ready, not below 0; nil if there is none.
        public var next: Double?

        public init(count: Int, next: Double?) {
            self.count = count
            self.next = next
        }
    }

    /// Counts the delayed jobs of all batches.
    public func delayed() async throws(RedisError) -> Delayed {
        let commands: [RedisCommand] = [
            ["ZCARD", .string(keys.delay)], ["ZRANGE", .string(keys.delay), "0", "0", "WITHSCORES"], ["TIME"],
        ]
        let replies = try await redis.pipeline(commands)
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == commands.count, let time = replies[2].array?.compactMap(\.int), time.count == 2 else {
            throw Self.unexpected("delayed")
        }
        let now = Double(time[0]) + Double(time[1]) / 1e6
        // Scores are milliseconds of the server's clock.
        let first = replies[1].dictionary.values.first.flatMap(Double.init)
        return Delayed(count: replies[0].int ?? 0, next: first.map { max(0, $0 / 1000 - now) })
    }
}
