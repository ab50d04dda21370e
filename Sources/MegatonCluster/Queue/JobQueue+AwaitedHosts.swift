internal import Foundation
internal import MegatonPipeline
package import MegatonRedis
internal import NIOCore

extension JobQueue {
    /// A host that jobs of a batch wait for: for a retry, for a permit, until its Retry-After has passed, or until
    /// their `notBefore`.
    package struct AwaitedHost: Sendable, Equatable {
        /// Host name, with its port if the URL has one.
        package var host: String
        /// Seconds until the first of the jobs is due, not below 0.
        package var seconds: Double

        package init(host: String, seconds: Double) {
            self.host = host
            self.seconds = seconds
        }
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
                let url = URL(string: found.source), url.host() != nil
            else { continue }
            let port = url.port.map { ":\($0)" } ?? ""
            return AwaitedHost(host: HostName.canonical(of: url) + port, seconds: max(0, (job.due - now) / 1000))
        }
        return nil
    }

    /// How far a host has answered the first requests of the fleet.
    package enum HostAnswer: Sendable {
        /// No bytes, or the host has failed since, or gets fewer requests because it refused some.
        case nothing
        /// First bytes have arrived, and no whole response.
        case firstBytes
        /// A request has ended, perhaps with a failure, but not because the host is absent.
        case whole

        /// - Parameter text: the numbers of `hostPrelude`, of which the third is the part of the limits that is left,
        ///   the fifth has failures, and the twelfth the answer. Earlier versions write eleven: such a host may have
        ///   answered.
        init(stored text: String) {
            let numbers = text.split(separator: " ").prefix(12).compactMap { Double($0) }
            guard numbers.count == 12 else {
                self = .whole
                return
            }
            // A response that stalls is a failure, and the first bytes of the next one say nothing. The jobs of a host
            // that fails, or refuses requests, have no outcome for long, as those of a slow one.
            let fails = numbers[4] > 0 || numbers[2] < 1
            switch numbers[11] {
            case 0: self = .nothing
            case 2: self = fails ? .nothing : .firstBytes
            default: self = fails ? .nothing : .whole
            }
        }
    }

    /// How far these hosts have answered, as far as this shard knows them.
    func answers(of hosts: [String]) async throws(RedisError) -> [String: HostAnswer] {
        let reply = try await redis.send(RedisCommand(["HMGET", .string(keys.rate)] + hosts.map { .string($0) }))
        return zip(hosts, reply.array ?? []).reduce(into: [:]) { answers, entry in
            answers[entry.0] = entry.1.string.map(HostAnswer.init)
        }
    }
}
