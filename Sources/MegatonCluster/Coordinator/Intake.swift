internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// The leader's path from pushed jobs to jobs that can be claimed: stage, validate, admit.
struct Intake: Sendable {
    let queue: JobQueue
    /// The coordinator's name as in the leader's lease.
    let name: String
    let validator: JobValidator
    /// Is notified of admitted jobs; nil without a shared cache.
    var repeats: RepeatedSources?

    /// Result of one round.
    enum Round: Equatable {
        case admitted(Counts)
        /// Jobs may be waiting, but enough are ready, or too many others wait for a host or a time.
        case full
        /// No job is waiting.
        case empty
        /// No job may be admitted until the queue is resumed.
        case draining
    }

    /// Jobs of a round by result.
    struct Counts: Equatable {
        var admitted = 0
        var invalid = 0
        var duplicates = 0
        var cancelled = 0

        /// - Parameter reply: of `admit`.
        mutating func add(_ reply: [Int]) {
            admitted += reply[0]
            invalid += reply[1]
            duplicates += reply[2]
            cancelled += reply[3]
        }
    }

    /// Keys and arguments of a script.
    typealias Call = (keys: [String], arguments: [RedisArgument])

    /// Maximum number of batches whose intakes one round reads.
    private static let intakesAtOnce = 64
    /// Up to this number, all jobs are validated before any of them is admitted: half of them is not worth another
    /// round trip.
    private static let few = 32
    private static let replayedAtOnce = 1000
    /// Number of jobs after which the validation lets other tasks run.
    private static let validatedAtOnce = 128
    var waitingLimits = WaitingLimits()

    /// Takes over jobs that earlier leaders have left staged.
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

    /// Runs one round: admits the validated jobs and stages more, while it validates those that were staged before.
    ///
    /// Both are one round trip, with the state for the next round, and another one reads the settings of batches: if
    /// Redis has many clients, each round trip waits for the commands of all of them. Many jobs are admitted by several
    /// calls of the script in that round trip, as each call holds Redis.
    ///
    /// - Parameters:
    ///   - window: limit on ready and running jobs; it observes how many jobs have ended.
    ///   - staged: jobs of this epoch that earlier rounds have left.
    ///   - chunk: maximum number of jobs to stage.
    func admit(
        epoch: Int,
        window: inout AdmissionWindow,
        staged: inout StagedJobs,
        chunk: Int
    ) async throws(RedisError) -> Round {
        let known = staged.state.take()
        let state: State
        if let known { state = known } else { state = try await self.state(window: &window) }
        if staged.isEmpty {
            guard let room = window.admits(state.room, at: .now) else { return .full }
            if known == nil { staged.round = state.round }
            // Also while the queue drains: an earlier leader, or an earlier round, may have left jobs in the stage.
            let call = stageCall(state, epoch: epoch, room, chunk: chunk, staged)
            staged.add(try await queue.redis.run(QueueScripts.stage, keys: call.keys, arguments: call.arguments))
            if staged.isEmpty {
                let isFull = state.leavesIntakes || room.jobs <= 0 || (room.packed ?? 1) <= 0
                return state.isDraining ? .draining : isFull ? .full : .empty
            }
        }
        if staged.validated.isEmpty {
            // If there are many, one part is validated while Redis is busy with the other.
            let half = min(staged.raw.count / 2, Self.admittedAtOnce)
            let first = staged.raw.count > Self.few ? half : staged.raw.count
            staged.validated = await validate(staged.raw.prefix(first))
            staged.raw.removeFirst(first)
        }
        let more = state.isDraining ? nil : window.further(state.room - staged.sourceCount)
        let waiting = staged.raw
        async let validated = validate(waiting[...])
        let counts = try await admit(&staged, epoch: epoch, state, more: more, chunk: chunk, window: &window)
        staged.raw.removeFirst(waiting.count)
        staged.validated += await validated
        return .admitted(counts)
    }

    private func validate(_ jobs: ArraySlice<StagedJobs.Raw>) async -> [JobValidator.Candidate] {
        var candidates: [JobValidator.Candidate] = []
        candidates.reserveCapacity(jobs.count)
        for job in jobs {
            // Other tasks of the leader must not wait for two thousand jobs.
            if candidates.count % Self.validatedAtOnce == Self.validatedAtOnce - 1 { await Task.yield() }
            candidates.append(validator.validate(job.json, batch: job.batch))
        }
        return candidates
    }

    /// State of the queue that decides how many jobs a round may take, and from which intakes.
    struct State {
        let room: AdmissionWindow.Room
        let workers: Int
        let round: Int
        let isDraining: Bool
        /// Weights of the batches whose intakes are read.
        let weights: [String: String]
        let readsPublicLists: Bool
        /// Whether some intakes are not read, as too many jobs wait.
        let leavesIntakes: Bool
    }

    private func state(window: inout AdmissionWindow) async throws(RedisError) -> State {
        try await state(try await queue.redis.pipeline(stateCommands), window: &window)
    }

    private var stateCommands: [RedisCommand] {
        let keys = queue.keys
        return [
            ["HLEN", .string(keys.body)], ["ZCARD", .string(keys.delay)], ["ZCARD", .string(keys.workers)],
            // At random, so that none of many batches is left out for long.
            ["ZRANDMEMBER", .string(keys.intakes), .int(Self.intakesAtOnce), "WITHSCORES"],
            ["HGET", .string(keys.control), .string(JobQueue.PauseMode.drain.rawValue)],
            ["HMGET", .string(keys.stat), "done", "failed", "cancelled", "packed"], ["GET", .string(keys.round)],
            ["ZCARD", .string(keys.holding)], ["HMGET", .string(keys.heldBytes), "bytes", "packed"],
            ["ZCARD", .string(keys.lease)],
        ]
    }

    /// - Parameter replies: to `stateCommands`.
    private func state(_ replies: [RedisValue], window: inout AdmissionWindow) async throws(RedisError) -> State {
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 10, let alive = replies[0].int, let delayed = replies[1].int,
            let workers = replies[2].int, let held = replies[7].int
        else { throw JobQueue.unexpected("HLEN") }
        let statistics = (replies[5].array ?? []).map { $0.int ?? 0 }
        let running = replies[9].int ?? 0
        window.observe(ended: statistics.prefix(3).reduce(0, +), running: running, workers: workers, at: .now)
        let waitingSizes = (replies[8].array ?? []).map { $0.int ?? 0 }
        // A pack counts as its sources. It has at most 256, also if the gauge is wrong.
        let packed = min(statistics.last ?? 0, alive * (Pack.maximumSources - 1)) - (waitingSizes.last ?? 0)
        var weights = replies[3].dictionary
        let waiting = delayed + held
        let step = waitingLimits.step(jobs: waiting, bytes: waitingSizes.first ?? 0)
        let number = weights.count
        switch step {
        case nil: break
        // A batch with a whole window of unfinished jobs (on a slow host, say) then waits for the others.
        case .largeBatches, .publicLists: weights = try await unfilled(weights, limit: window.limit)
        case .all: weights = [:]
        }
        let readsPublicLists = step == nil || step == .largeBatches
        return State(
            // Jobs that wait do not fill the window: a slow host must not stop the others.
            room: window.room(
                jobs: alive - waiting,
                running: running,
                sources: alive - waiting + max(0, packed),
                workers: workers
            ),
            workers: workers,
            round: replies[6].int ?? 0,
            isDraining: replies[4].string == "1",
            weights: weights,
            readsPublicLists: readsPublicLists,
            leavesIntakes: weights.count < number || !readsPublicLists
        )
    }

    /// A call of the script `stage`, behind the jobs that are staged already.
    private func stageCall(
        _ state: State,
        epoch: Int,
        _ room: AdmissionWindow.Room,
        chunk: Int,
        _ staged: StagedJobs
    ) -> Call {
        let (keys, weights) = (queue.keys, state.weights)
        let batches = weights.keys.sorted()
        return (
            [
                keys.leader, keys.epoch, keys.stage(epoch: epoch), keys.stages, keys.intakes, keys.credit,
                keys.control, keys.round,
            ]
                + Job.Priority.allCases.map(keys.jobs) + batches.map(keys.jobs(batch:)),
            [
                .string(name), .int(epoch), .int(max(0, min(room.jobs, chunk))), .int(staged.count), .int(staged.round),
                room.packed.map { .int(max(0, min($0, chunk))) } ?? "",
            ]
                + Job.Priority.allCases.flatMap {
                    [.string(PublicIntake.name(of: $0)), .int(state.readsPublicLists ? 1 : 0)]
                }
                + batches.flatMap { [.string($0), .int(Self.weight(weights[$0]))] }
        )
    }

    /// The batches that have fewer than `limit` unfinished jobs.
    private func unfilled(_ weights: [String: String], limit: Int) async throws(RedisError) -> [String: String] {
        let names = weights.keys.sorted()
        let replies = try await queue.redis.pipeline(names.map { ["HGETALL", .string(queue.keys.batch($0))] })
        try Self.checkBatches(replies)
        let full = zip(names, replies).filter { _, reply in
            let counters = BatchCounters(reply.dictionary)
            return counters["total"] - counters.ended >= limit
        }
        return weights.filter { name, _ in !full.contains { $0.0 == name } }
    }

    private static func weight(_ score: String?) -> Int {
        min(max(score.flatMap(Double.init).map { Int($0) } ?? 1, 1), BatchPolicy.maximumWeight)
    }

    /// Accepts a batch whose key is not a hash, as it must not hold the others up: `admit` refuses its jobs.
    static func checkBatches(_ replies: [RedisValue]) throws(RedisError) {
        for case .error(let text) in replies where !text.hasPrefix("WRONGTYPE ") { throw RedisError(reply: text) }
    }

    /// Admits the validated jobs, and stages others behind those that are left: up to `chunk`, as there is room for.
    private func admit(
        _ staged: inout StagedJobs,
        epoch: Int,
        _ state: State,
        more: AdmissionWindow.Room?,
        chunk: Int,
        window: inout AdmissionWindow
    ) async throws(RedisError) -> Counts {
        let memories = try await memories(Set(staged.validated.map(\.batch).filter { !$0.isEmpty }).sorted())
        let parts = admissions(of: staged.validated, memories)
        window.observe(packs: staged.validated.map(\.sourceCount).filter { $0 > 1 })
        var (next, calls) = (staged, [Call]())
        for part in parts {
            calls.append(admitCall(part, epoch: epoch, round: next.round, tokens: max(1, state.workers), memories))
            next.round += 1
            next.validated.removeFirst(part.entryCount)
        }
        let stageCall = more.map { self.stageCall(state, epoch: epoch, $0, chunk: chunk, next) }
        let replies = try await queue.redis.run(
            QueueScripts.stage,
            after: calls.map { QueueScripts.admit.call(keys: $0.keys, arguments: $0.arguments) } + stateCommands,
            calls: stageCall.map { [$0] } ?? []
        )
        var counts = Counts()
        for (part, (call, reply)) in zip(parts, zip(calls, replies.commands)) {
            counts.add(try await admitted(reply, call))
            note(part)
        }
        staged = next
        if let stageCall, var reply = replies.calls.first {
            // Refused, as it came before `admit`: Redis did not know that script, or sent it to another node.
            if case .error(let text) = reply, text.hasPrefix("STALEROUND") {
                reply = try await queue.redis.run(
                    QueueScripts.stage,
                    keys: stageCall.keys,
                    arguments: stageCall.arguments
                )
            }
            if case .error(let text) = reply { throw RedisError(reply: text) }
            staged.add(reply)
        }
        let following = try await self.state(Array(replies.commands.dropFirst(calls.count)), window: &window)
        // Otherwise it was read before `admit` ran.
        if following.round == next.round { staged.state = following }
        return counts
    }

    private func note(_ part: Admission) {
        repeats?.note(
            part.candidates.flatMap { candidate in
                switch candidate.verdict {
                case .valid(let job, _): [job]
                case .pack(let pack, _, _): pack.sources.map(pack.job)
                case .invalid: [Job]()
                }
            }
        )
    }

    /// The reply of a call of `admit` that was sent among others. One that did not reach Redis in its turn, as Redis
    /// did not know the script, is sent again, and so are those behind it, which found another round.
    private func admitted(_ reply: RedisValue, _ call: Call) async throws(RedisError) -> [Int] {
        var reply = reply
        if case .error(let text) = reply {
            guard text.hasPrefix("NOSCRIPT") || text.hasPrefix("STALEROUND") else { throw RedisError(reply: text) }
            reply = try await queue.redis.run(QueueScripts.admit, keys: call.keys, arguments: call.arguments)
        }
        guard let counts = reply.array?.compactMap(\.int), counts.count == 4 else {
            throw JobQueue.unexpected("admit")
        }
        return counts
    }
}

/// Jobs that the leader has staged and not admitted yet, in the order of the stage: first the validated jobs, then the
/// others. Redis has all of them: a leader that fails loses this copy, and the stage is read again from its beginning.
struct StagedJobs: Sendable {
    /// The batch through whose intake a job came, empty for the public one, and the pushed JSON.
    typealias Raw = (batch: String, json: Data)

    var validated: [JobValidator.Candidate] = []
    var raw: [Raw] = []
    /// How often the stage in Redis has changed. If Redis has another number, its stage is not this one.
    var round = 0
    /// The state of the queue after the last `admit`, without the jobs staged since; nil if it has to be read.
    var state: Intake.State?

    var count: Int { validated.count + raw.count }
    /// Number of the jobs, and of the sources of packs among the validated ones.
    var sourceCount: (jobs: Int, packed: Int) {
        let packs = validated.filter { $0.sourceCount > 1 }
        return (count - packs.count, packs.reduce(0) { $0 + $1.sourceCount })
    }
    var isEmpty: Bool { count == 0 }

    /// Adds the reply of the script `stage`.
    mutating func add(_ reply: RedisValue) {
        round += 1
        raw += (reply.array ?? []).compactMap { entry in
            guard let bytes = entry.buffer?.readableBytesView, let end = bytes.firstIndex(of: 0) else { return nil }
            return (String(decoding: bytes[..<end], as: UTF8.self), Data(bytes[(end + 1)...]))
        }
    }
}

/// The names that the public intakes have among those of batches in the stage. No batch has one of them.
enum PublicIntake {
    /// The normal one has the empty name.
    static func name(of priority: Job.Priority) -> String { priority == .normal ? "" : "!\(priority.rawValue)" }

    /// The priority of the jobs of a public intake; nil for the name of a batch.
    static func priority(of name: String) -> Job.Priority? {
        Job.Priority.allCases.first { Self.name(of: $0) == name }
    }
}
