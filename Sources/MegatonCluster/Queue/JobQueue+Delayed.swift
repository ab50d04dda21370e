internal import Foundation
package import MegatonRedis
internal import NIOCore

/// A job in `holding`, as the scripts write it: `<host>\0<priority><place>\0<id>`, with 19 characters of place.
struct HoldingEntry {
    let host: String
    /// The text of the job's `JobKey`.
    let id: String

    private static let placeSize = 20

    /// - Returns: nil if the text has another form.
    init?(_ text: String) {
        let parts = text.split(separator: "\0", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[1].utf8.count == Self.placeSize else { return nil }
        host = String(parts[0])
        id = String(parts[2])
    }
}

extension JobQueue {
    /// Jobs of a batch that wait: they failed and will be retried, or their host is at its limit.
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

    /// Counts the delayed and held jobs of a batch among the queue's first 1000 of each kind. If more are held, among
    /// the first 100 of each of the 50 hosts with the next turns.
    ///
    /// - Returns: all of the batch if no other batch has any, or if the queue has at most 1000 of each kind; otherwise
    ///   those among the first.
    package func delayed(of batch: String) async throws(RedisError) -> Delayed {
        let commands: [RedisCommand] = [
            ["ZCARD", .string(keys.delay)],
            ["ZRANGE", .string(keys.delay), "0", .int(Self.examinedDelayed - 1), "WITHSCORES"], ["TIME"],
            ["ZCARD", .string(keys.holding)],
            ["ZRANGE", .string(keys.holding), "0", .int(Self.examinedDelayed - 1)],
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
        // In `holding`, the first ones are those of the hosts that come first in the alphabet.
        let entries =
            replies[3].int ?? 0 > Self.examinedDelayed
            ? try await nextHeld()
            : (replies[4].array ?? []).compactMap { $0.string.flatMap(HoldingEntry.init) }
        let held = entries.count { JobKey($0.id).batch == batch }
        let holdsOnlyOwn = held > 0 && held == entries.count
        return Delayed(
            count: (isAlone ? max(own.count, replies[0].int ?? 0) : own.count)
                + (holdsOnlyOwn ? max(held, replies[3].int ?? 0) : held),
            next: first.map { max(0, $0 / 1000 - now) }
        )
    }

    /// The first held jobs of the hosts with the next turns.
    private func nextHeld() async throws(RedisError) -> [HoldingEntry] {
        let hosts = try await redis.send(["ZRANGE", .string(keys.held), "0", .int(Self.examinedHosts - 1)]).array ?? []
        let replies = try await redis.pipeline(hosts.compactMap(\.string).map(firstHeld))
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.flatMap { ($0.array ?? []).compactMap { $0.string.flatMap(HoldingEntry.init) } }
    }

    /// The command that reads the first held jobs of a host.
    private func firstHeld(of host: String) -> RedisCommand {
        [
            "ZRANGEBYLEX", .string(keys.holding), .string("[\(host)\0"), .string("(\(host)\u{1}"), "LIMIT", "0",
            .int(Self.examinedOfHost),
        ]
    }

    /// Maximum number of hosts whose held jobs are counted, and of names that are read of each.
    private static let examinedHosts = 50
    private static let examinedOfHost = 100
}

extension JobQueue {
    /// A host that jobs of a batch wait for: for a retry, for a permit, or until its Retry-After has passed.
    package struct AwaitedHost: Sendable, Equatable {
        /// Host name, with its port if the URL has one.
        package var host: String
        /// Seconds until the first of the jobs is due, not below 0.
        package var seconds: Double
    }

    /// The host with the next turn that holds a job of the batch, among the first hosts and the first jobs of each.
    private func holdingHost(of batch: String) async throws(RedisError) -> AwaitedHost? {
        let reply = try await redis.send([
            "ZRANGE", .string(keys.held), "0", .int(Self.delayedAtOnce - 1), "WITHSCORES",
        ])
        let fields = reply.array ?? []
        let now = Double(try await self.now())
        for index in stride(from: 0, to: fields.count - 1, by: 2) {
            guard let host = fields[index].string else { continue }
            let entries = try await redis.send(firstHeld(of: host))
            let isAwaited = (entries.array ?? []).contains { entry in
                entry.string.flatMap(HoldingEntry.init).map { JobKey($0.id).batch == batch } ?? false
            }
            if isAwaited {
                let turn = fields[index + 1].string.flatMap(Double.init) ?? 0
                return AwaitedHost(host: host, seconds: max(0, (turn - now) / 1000))
            }
        }
        return nil
    }

    /// Maximum number of delayed jobs that are read: each may have a megabyte of JSON.
    private static let delayedAtOnce = 8

    /// The host of the batch's delayed job that is due first, among the delayed jobs of all batches that are due first.
    ///
    /// - Returns: nil if none of these jobs belongs to the batch and has a host in its source.
    package func awaitedHost(of batch: String) async throws(RedisError) -> AwaitedHost? {
        if let host = try await holdingHost(of: batch) { return host }
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
