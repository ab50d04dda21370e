internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// The part of a claimed pack that is settled in one call of the script `settlePack`.
struct PackSettlement: Sendable {
    /// A source that has ended for good.
    struct End: Sendable {
        let id: String
        let status: JobOutcome.Status
        /// JSON; empty if the pack has no batch and no reply.
        let outcome: Data
        /// JSON of the dead letter; empty if the source has not failed.
        let dead: Data
        /// The same outcome, for metrics and logs, without the job.
        let reported: JobOutcome

        init(id: String, outcome: JobOutcome, dead: DeadLetter.Content?, isKept: Bool = true) {
            self.id = id
            status = outcome.status
            var reported = outcome
            reported.job = nil
            self.reported = reported
            self.outcome = isKept ? outcome.json() : Data()
            self.dead = dead.map { WireJSON.data($0) } ?? Data()
        }

        var size: Int { outcome.count + dead.count + id.utf8.count }
    }

    /// A source that becomes a job of its own.
    struct Split: Sendable {
        let job: Job
        let json: Data
        let stalls: Int
        /// Number of its attempts that do not count.
        let free: Int
        let start: Start

        /// The time at which it may run.
        enum Start: Sendable {
            /// It is ready at once.
            case ready
            /// It is due at once, and shares the places with fresh jobs.
            case due
            /// It waits for this time first. Zero makes it ready at once.
            case after(Duration)

            /// As an argument of the script `settlePack`, milliseconds.
            var milliseconds: Int {
                switch self {
                case .ready: 0
                case .due: -1
                case .after(let delay): delay > .zero ? max(1, delay.wholeMilliseconds) : 0
                }
            }
        }

        init(job: Job, stalls: Int = 0, free: Int, start: Start = .ready) {
            self.job = job
            self.stalls = stalls
            self.free = free
            self.start = start
            json = job.json()
        }

        var size: Int { json.count + (job.id?.utf8.count ?? 0) }
    }

    /// The fate of the other sources.
    enum Rest: Sendable {
        /// There are none.
        case none
        /// They stay claimed.
        case keep(Pack)
        /// They are released as a smaller pack, which goes first.
        case ready(Pack)
        /// They are released as a smaller pack, which goes last.
        case yield(Pack)
        /// They wait for their host as a smaller pack.
        case hold(Pack, HostTurn)
    }

    var ends: [End] = []
    var splits: [Split] = []
    var rest = Rest.none
    /// Where the outcomes are sent.
    var reply: JobReply?
    /// Numbers to add to the counters of the batch.
    var counters: [String: Int] = [:]
}

extension JobQueue {
    /// Settles a part of a pack, or all of it; see the script `settlePack`.
    ///
    /// - Parameter known: number of sources that the pack has, as far as the caller knows.
    func settle(
        _ settlement: PackSettlement,
        of pack: ActiveJob,
        known: Int,
        worker: String
    ) async throws(RedisError) -> SettleResult {
        let scope = pack.key.batch
        var (name, rest, turn): (String, Pack?, HostTurn?) = ("none", nil, nil)
        switch settlement.rest {
        case .none: break
        case .keep(let pack): (name, rest) = ("keep", pack)
        case .ready(let pack): (name, rest) = ("ready", pack)
        case .yield(let pack): (name, rest) = ("yield", pack)
        case .hold(let pack, let wait): (name, rest, turn) = ("hold", pack, wait)
        }
        var arguments: [RedisArgument] = [
            .string(worker), .string(pack.key.text), .int(pack.attempt), .int(known), .string(name),
            .buffer(ByteBuffer(bytes: rest?.json() ?? Data())), .int(rest?.sources.count ?? 0),
            .string(turn?.host ?? ""), .int(Duration.seconds(turn?.wait ?? 0).wholeMilliseconds),
            .int(Int((turn?.interval ?? 0) * 1_000_000)), .int(settlement.ends.count), .int(settlement.splits.count),
            .string(settlement.reply?.target ?? ""),
        ]
        for end in settlement.ends {
            arguments += [
                .string(JobKey(batch: scope, id: end.id).text), .string(end.status.rawValue),
                .buffer(ByteBuffer(bytes: end.outcome)), .buffer(ByteBuffer(bytes: end.dead)),
            ]
        }
        for split in settlement.splits {
            arguments += [
                .string(JobKey(batch: scope, id: split.job.id ?? "").text),
                .buffer(ByteBuffer(bytes: split.json)), .string(split.job.sourceDigest),
                .string(split.job.host ?? ""), .int(split.stalls), .int(split.free),
                .int(split.start.milliseconds),
            ]
        }
        let reply = try await redis.run(
            QueueScripts.settlePack,
            keys: [keys.lease, keys.body, keys.meta, keys.stat, keys.dead, keys.deadInfo, keys.ended, keys.delay]
                + keys.ready
                + [
                    keys.wake, keys.cancelled, keys.holding, keys.held, keys.pace, keys.heldBytes,
                    keys.replies, keys.batch(pack.batch), keys.results(pack.batch), keys.known(pack.batch),
                ],
            arguments: arguments + Self.pairs(settlement.counters)
        )
        return try Self.result(reply)
    }

    /// The jobs that wait for a place in a worker, by the highest priority among them beside that of a job that runs.
    enum WaitingJobs: Int, Sendable, Comparable {
        case none, lower, equal, higher

        static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
    }

    /// The ready jobs beside a job of this priority. Delayed ones that are due count as of its priority.
    ///
    /// - Returns: nil while the queue is paused, and none of them is claimed.
    func waitingJobs(beside priority: Job.Priority) async throws(RedisError) -> WaitingJobs? {
        let order = Job.Priority.allCases
        let replies = try await redis.pipeline(
            [
                ["HGET", .string(keys.control), .string(PauseMode.paused.rawValue)], ["TIME"],
                ["ZRANGE", .string(keys.delay), "0", "0", "WITHSCORES"],
            ] + order.map { ["EXISTS", .string(keys.ready($0))] }
        )
        for case .error(let text) in replies { throw RedisError(reply: text) }
        guard replies.count == 3 + order.count else { throw Self.unexpected("EXISTS") }
        if replies[0].string == "1" { return nil }
        let own = order.firstIndex(of: priority) ?? 0
        guard let first = replies.dropFirst(3).firstIndex(where: { $0.int == 1 }).map({ $0 - 3 }), first <= own else {
            if isDue(replies[2], at: replies[1]) { return .equal }
            return replies.dropFirst(3).contains { $0.int == 1 } ? .lower : WaitingJobs.none
        }
        return first < own ? .higher : .equal
    }

    /// - Parameters:
    ///   - first: the first of the delayed jobs, with its time in milliseconds.
    ///   - time: the reply of TIME.
    private func isDue(_ first: RedisValue, at time: RedisValue) -> Bool {
        guard let time = time.array, time.count == 2, let seconds = time[0].int, let microseconds = time[1].int,
            let due = first.array?.last?.string.flatMap(Double.init)
        else { return false }
        return due <= Double(seconds) * 1000 + Double(microseconds) / 1000
    }

    /// Wakes a worker that waits for jobs, as it has free places: the one that has waited longest receives the token
    /// before the next command.
    ///
    /// - Returns: whether a worker has the token. It may be one whose last place was taken a moment ago. False if there
    ///   were tokens already: then no worker waits. So at most one token is left over.
    func wakeIdleWorker() async throws(RedisError) -> Bool {
        let wake = RedisArgument.string(keys.wake)
        guard try await redis.send(["LLEN", wake]).int == 0 else { return false }
        let replies = try await redis.pipeline([["LPUSH", wake, "1"], ["LLEN", wake]])
        for case .error(let text) in replies { throw RedisError(reply: text) }
        return replies.last?.int == 0
    }

    /// The jobs whose source is suspected of a process death. A pack runs none of them: its death would say nothing
    /// about one of its sources.
    func suspected(_ jobs: [Job]) async throws(RedisError) -> Set<String> {
        guard try await redis.send(["EXISTS", .string(keys.crashes)]).int == 1 else { return [] }
        let digests = jobs.map { RedisArgument.string($0.sourceDigest) }
        let scores = try await redis.send(RedisCommand(["ZMSCORE", .string(keys.crashes)] + digests)).array ?? []
        return Set(zip(jobs, scores).compactMap { job, score in score.string == nil ? nil : job.id })
    }
}
