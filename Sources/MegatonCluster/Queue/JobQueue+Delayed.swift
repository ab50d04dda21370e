internal import Foundation
package import MegatonRedis

extension JobQueue {
    /// Delayed jobs of a batch: they failed and will be retried, or their host is at its limit.
    package struct Delayed: Sendable, Equatable {
        package var count: Int
        /// Seconds until the first of them is ready, not below 0; nil if there is none.
        package var next: Double?

        package init(count: Int, next: Double?) {
            self.count = count
            self.next = next
        }
    }

    /// Maximum number of delayed jobs whose names are read: at most 300 bytes each, usually 40.
    private static let examinedDelayed = 1000

    /// Counts the delayed jobs of a batch among the queue's delayed jobs that are due first.
    ///
    /// - Returns: all delayed jobs of the batch if no other batch has any, or if the queue has at most 1000; otherwise
    ///   those among the first 1000.
    package func delayed(of batch: String) async throws(RedisError) -> Delayed {
        let commands: [RedisCommand] = [
            ["ZCARD", .string(keys.delay)],
            ["ZRANGE", .string(keys.delay), "0", .int(Self.examinedDelayed - 1), "WITHSCORES"], ["TIME"],
        ]
        let replies = try await redis.pipeline(commands)
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == commands.count, let time = replies[2].array?.compactMap(\.int), time.count == 2 else {
            throw Self.unexpected("delayed")
        }
        let now = Double(time[0]) + Double(time[1]) / 1e6
        let fields = replies[1].array ?? []
        let indices = stride(from: 0, to: fields.count - 1, by: 2)
        let own = indices.filter { fields[$0].string.flatMap { JobKey($0).batch } == batch }
        // Scores are milliseconds of the server's clock.
        let first = own.first.flatMap { fields[$0 + 1].string }.flatMap(Double.init)
        let isAlone = !own.isEmpty && 2 * own.count == fields.count
        return Delayed(
            count: isAlone ? max(own.count, replies[0].int ?? 0) : own.count,
            next: first.map { max(0, $0 / 1000 - now) }
        )
    }
}
