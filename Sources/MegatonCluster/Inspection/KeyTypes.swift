internal import Foundation
package import MegatonRedis

/// The keys of a shard with the type that Redis must report for each. Finds those that another program has written
/// with a type of its own, which the messages of Redis do not name.
package struct KeyTypes: Sendable {
    /// A key of another type than its own.
    package struct Damage: Sendable, Codable, Equatable, CustomStringConvertible {
        package var key: String
        /// The type that Redis reports.
        package var type: String
        /// The type that the key must have.
        package var expected: String

        /// The key without the queue and the version of the protocol: `stat`, or `jobs:high`.
        package var name: String {
            let name = key.range(of: "}:").map { key[$0.upperBound...] } ?? key[...]
            let version = "\(QueueKeys.version):"
            return String(name.hasPrefix(version) ? name.dropFirst(version.count) : name)
        }

        /// A sentence without its period.
        package var description: String {
            "\(key) is of the type \(type) and must be of the type \(expected): another program has written it"
        }
    }

    private let queue: JobQueue

    private var keys: QueueKeys { queue.keys }

    /// Maximum number of batches whose keys are examined, if none are named: the newest.
    private static let examinedBatches = 1000

    package init(_ queue: JobQueue) { self.queue = queue }

    /// Finds the keys of another type.
    ///
    /// - Parameter batches: the batches whose keys are examined too; nil for the newest.
    package func damaged(batches: [String]? = nil) async throws(RedisError) -> [Damage] {
        let last = RedisArgument.int(Self.examinedBatches - 1)
        let (epoch, newest) = try await read(
            ["GET", .string(keys.epoch)],
            ["ZRANGE", .string(keys.batches), "0", batches == nil ? last : "0", "REV"]
        )
        let names = batches ?? (newest.array ?? []).compactMap(\.string)
        let stage = epoch.int.map { [(key: keys.stage(epoch: $0), type: "list")] } ?? []
        let expected = shared + stage + names.flatMap(types(ofBatch:))
        let replies = try await queue.redis.pipeline(expected.map { ["TYPE", .string($0.key)] })
        guard replies.count == expected.count else { throw JobQueue.unexpected("TYPE") }
        var damaged: [Damage] = []
        for ((key, type), reply) in zip(expected, replies) {
            if case .error(let text) = reply { throw RedisError(reply: text) }
            guard let actual = reply.string else { throw JobQueue.unexpected("TYPE") }
            if actual == type || actual == "none" { continue }
            damaged.append(Damage(key: key, type: actual, expected: type))
        }
        return damaged
    }

    /// The replies to two commands. That of a key of another type is an error here, and a finding of its own.
    private func read(
        _ one: RedisCommand,
        _ two: RedisCommand
    ) async throws(RedisError) -> (RedisValue, RedisValue) {
        let replies = try await queue.redis.pipeline([one, two])
        guard replies.count == 2 else { throw JobQueue.unexpected("ZRANGE") }
        for case .error(let text) in replies {
            let error = RedisError(reply: text)
            guard error.isWrongType else { throw error }
        }
        return (replies[0], replies[1])
    }

    /// Keys with a fixed name; see `QueueKeys`. Counters that nothing waits for are left out.
    private var shared: [(key: String, type: String)] {
        let intakes = Job.Priority.allCases.map(keys.jobs)
        let groups: [(type: String, keys: [String])] = [
            ("list", intakes + keys.ready + [keys.suspects, keys.wake, keys.intakeWake, keys.replies]),
            ("set", [keys.stages, keys.cancelled]),
            (
                "zset",
                [
                    keys.intakes, keys.lease, keys.delay, keys.holding, keys.held, keys.dead, keys.crashes,
                    keys.isolating, keys.batches, keys.ended, keys.workers, keys.coordinators, keys.webhookQueue,
                    keys.webhookHosts, keys.webhookGood, keys.away,
                ]
            ),
            (
                "hash",
                [
                    keys.body, keys.meta, keys.credit, keys.pace, keys.heldBytes, keys.deadInfo, keys.workerInfo,
                    keys.control, keys.rate, keys.stat, keys.webhooks, keys.webhookState,
                ]
            ),
            (
                "string",
                [
                    keys.leader, keys.formerLeader, keys.epoch, keys.round, keys.protocolRange, keys.layout,
                    keys.places, keys.givenUp, keys.presets, keys.sweepGate, keys.webhookRules,
                ]
            ),
        ]
        return groups.flatMap { group in group.keys.map { (key: $0, type: group.type) } }
    }

    /// The keys of a batch.
    private func types(ofBatch batch: String) -> [(key: String, type: String)] {
        [
            (keys.batch(batch), "hash"), (keys.known(batch), "hash"), (keys.results(batch), "list"),
            (keys.jobs(batch: batch), "list"),
        ]
    }
}

extension Inspector {
    /// One part of the state of a cluster, of which the other parts can be shown without it.
    ///
    /// - Returns: nil if a key of the part has another type than its own.
    /// - Throws: any other error.
    package static func undamaged<Value: Sendable>(
        _ read: @Sendable () async throws(RedisError) -> Value
    ) async throws(RedisError) -> Value? {
        do throws(RedisError) {
            return try await read()
        } catch {
            guard error.isWrongType else { throw error }
            return nil
        }
    }
}
