internal import Foundation
package import MegatonRedis
internal import NIOCore

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

extension JobQueue {
    /// A host that jobs of a batch wait for: for a retry, for a permit, or until its Retry-After has passed.
    package struct AwaitedHost: Sendable, Equatable {
        /// Host name, with its port if the URL has one.
        package var host: String
        /// Seconds until the first of the jobs is due, not below 0.
        package var seconds: Double
    }

    /// Maximum number of delayed jobs that are read: each may have a megabyte of JSON.
    private static let delayedAtOnce = 8

    /// The host of the batch's delayed job that is due first, among the delayed jobs of all batches that are due first.
    ///
    /// - Returns: nil if none of these jobs belongs to the batch and has a host in its source.
    package func awaitedHost(of batch: String) async throws(RedisError) -> AwaitedHost? {
        let reply = try await redis.send([
            "ZRANGE", .string(keys.delay), "0", .int(Self.delayedAtOnce - 1), "WITHSCORES",
        ])
        let fields = reply.array ?? []
        let delayed = stride(from: 0, to: fields.count - 1, by: 2).compactMap { index in
            fields[index].string.map { (id: $0, due: fields[index + 1].string.flatMap(Double.init) ?? 0) }
        }
        if delayed.isEmpty { return nil }
        let names = delayed.map { RedisArgument.string($0.id) }
        let bodies = try await redis.send(RedisCommand(["HMGET", .string(keys.body)] + names)).array ?? []
        let now = Double(try await self.now())
        for (job, body) in zip(delayed, bodies) {
            // Skipped: it has ended since, cannot be read, belongs to another batch, or has no host.
            guard let json = body.buffer.map({ Data($0.readableBytesView) }),
                let found = try? Job(json: json, wasValidated: true), (JobKey(job.id).batch ?? found.batch) == batch,
                let url = URL(string: found.source), let host = url.host()
            else { continue }
            let port = url.port.map { ":\($0)" } ?? ""
            return AwaitedHost(host: host.lowercased() + port, seconds: max(0, (job.due - now) / 1000))
        }
        return nil
    }
}
