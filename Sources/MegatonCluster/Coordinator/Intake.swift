internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// The leader's way from what was pushed to what can be claimed: stage, validate, admit.
struct Intake: Sendable {
    let queue: JobQueue
    /// The coordinator's name, as the leader's lease has it.
    let name: String
    let validator: JobValidator

    /// What one round did.
    enum Round: Equatable {
        case admitted(Counts)
        /// Jobs may wait, but enough are ready.
        case full
        /// Nothing waits.
        case empty
    }

    /// How many of a round went where.
    struct Counts: Equatable {
        var admitted = 0
        var invalid = 0
        var duplicates = 0
        var cancelled = 0
    }

    /// Batches whose intakes one round asks.
    private static let intakesAtOnce = 64
    private static let replayedAtOnce = 1000
    /// How many windows of jobs may be put off at a time.
    private static let delayedWindows = 16

    /// Takes over what earlier leaders left staged.
    func replay(epoch: Int) async throws(RedisError) {
        let keys = queue.keys
        let stages = try await queue.redis.send(["SMEMBERS", .string(keys.stages)]).array ?? []
        for older in stages.compactMap(\.int) where older != epoch {
            var moved = Self.replayedAtOnce
            while moved == Self.replayedAtOnce {
                moved =
                    try await queue.redis.run(
                        QueueScripts.replay,
                        keys: [
                            keys.leader, keys.epoch, keys.stage(epoch: epoch), keys.stages, keys.stage(epoch: older),
                        ],
                        arguments: [.string(name), .int(epoch), .int(older), .int(Self.replayedAtOnce)]
                    ).int ?? 0
            }
        }
    }

    /// One round.
    ///
    /// - Parameters:
    ///   - window: how many jobs may be ready or running.
    ///   - chunk: how many to take at the most.
    func admit(epoch: Int, window: Int, chunk: Int) async throws(RedisError) -> Round {
        let keys = queue.keys
        let state = try await queue.redis.pipeline(
            [
                ["HLEN", .string(keys.body)], ["ZCARD", .string(keys.delay)], ["ZCARD", .string(keys.workers)],
                // At random, so that none of many is left out for long.
                ["ZRANDMEMBER", .string(keys.intakes), .int(Self.intakesAtOnce)],
            ])
        for case .error(let text) in state { throw RedisError(reply: text) }
        guard state.count == 4, let alive = state[0].int, let delayed = state[1].int, let workers = state[2].int else {
            throw JobQueue.unexpected("HLEN")
        }
        // What is put off does not fill the window: a failing origin must not stop the others.
        // There is a limit to that too: what is put off is no longer in the intake, where it is cheap.
        let room = min(window - (alive - delayed), Self.delayedWindows * window - alive)
        guard room > 0 else { return .full }
        let batches = (state[3].array ?? []).compactMap(\.string)
        let staged = try await stage(batches, epoch: epoch, limit: min(room, chunk))
        if staged.isEmpty { return .empty }
        let candidates = staged.map { validator.examine($0.json, batch: $0.batch) }
        return .admitted(try await admit(candidates, epoch: epoch, workers: workers))
    }

    private func stage(
        _ batches: [String],
        epoch: Int,
        limit: Int
    ) async throws(RedisError) -> [(batch: String, json: Data)] {
        let keys = queue.keys
        let reply = try await queue.redis.run(
            QueueScripts.stage,
            keys: [keys.leader, keys.epoch, keys.stage(epoch: epoch), keys.stages, keys.intakes, keys.jobs]
                + batches.map(keys.jobs(batch:)),
            arguments: [.string(name), .int(epoch), .int(limit), ""] + batches.map { .string($0) }
        )
        return (reply.array ?? []).compactMap { entry in
            guard let bytes = entry.buffer?.readableBytesView, let end = bytes.firstIndex(of: 0) else { return nil }
            return (String(decoding: bytes[..<end], as: UTF8.self), Data(bytes[(end + 1)...]))
        }
    }

    private func admit(
        _ candidates: [JobValidator.Candidate],
        epoch: Int,
        workers: Int
    ) async throws(RedisError) -> Counts {
        let keys = queue.keys
        let batches = Array(Set(candidates.map(\.batch).filter { !$0.isEmpty })).sorted()
        let number = Dictionary(uniqueKeysWithValues: batches.enumerated().map { ($1, $0 + 1) })
        var arguments: [RedisArgument] = [.string(name), .int(epoch), .int(max(1, workers)), .int(batches.count)]
        arguments += batches.map { .string($0) }
        for candidate in candidates {
            arguments += [.string(candidate.id)]
            let batch = RedisArgument.int(number[candidate.batch] ?? 0)
            let isOwn: RedisArgument = candidate.isOwn ? "1" : "0"
            switch candidate.verdict {
            case .valid(let job):
                let priority = (Job.Priority.allCases.firstIndex(of: job.priority) ?? 1) + 1
                let outcome = candidate.outcome(
                    .cancelled,
                    code: "not_admitted",
                    message: "The batch was cancelled, or a job with this id is alive already."
                )
                arguments += [
                    .int(priority), batch, isOwn, .buffer(ByteBuffer(bytes: job.json())),
                    // Without a batch there is nobody to be told.
                    .buffer(ByteBuffer(bytes: candidate.batch.isEmpty ? Data() : outcome.json())),
                ]
            case .invalid(let dead):
                let outcome = candidate.outcome(.failed, code: dead.code, message: dead.message)
                arguments += [
                    "x", batch, isOwn, .buffer(ByteBuffer(bytes: WireJSON.data(dead))),
                    .buffer(ByteBuffer(bytes: outcome.json())),
                ]
            }
        }
        let reply = try await queue.redis.run(
            QueueScripts.admit,
            keys: [
                keys.leader, keys.epoch, keys.stage(epoch: epoch), keys.body, keys.meta,
            ] + keys.ready + [
                keys.wake, keys.dead, keys.deadInfo, keys.stat, keys.batches, keys.cancelled,
            ] + batches.flatMap { [keys.batch($0), keys.results($0)] },
            arguments: arguments
        )
        guard let counts = reply.array?.compactMap(\.int), counts.count == 4 else {
            throw JobQueue.unexpected("admit")
        }
        return Counts(admitted: counts[0], invalid: counts[1], duplicates: counts[2], cancelled: counts[3])
    }
}
