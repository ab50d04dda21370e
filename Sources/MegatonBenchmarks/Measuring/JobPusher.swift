import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Pushes jobs that do nothing, and waits for their end.
///
/// Each job goes to the public intake of the shard that a submitter would choose.
struct JobPusher: Sendable {
    let queue: ShardedQueue
    /// Size of a job's JSON.
    let bytes: Int
    /// Number of sources of each job.
    var pack = 1

    private static let pushedAtOnce = 500
    /// Packs that are pushed at once to each of several shards: only the last of them is smaller than the others.
    private static let packsAtOnce = 8
    /// The same number at a steady rate, where more would be late.
    private static let steadyPacks = 2
    /// Time limit for the jobs; those that are not done by then never will be.
    static let timeout: Duration = .seconds(600)

    /// Pushes a backlog.
    ///
    /// - Parameter isTimed: whether the latency from push to start is measured.
    func push(_ count: Int, isTimed: Bool) async throws {
        let step =
            pack > 1 && queue.isDivided
            ? pack * Self.packsAtOnce * queue.shards.count : (Self.pushedAtOnce + pack - 1) / pack * pack
        for first in stride(from: 0, to: count, by: step) {
            try await push(first..<min(count, first + step), isTimed)
        }
    }

    private func push(_ range: Range<Int>, _ isTimed: Bool = true) async throws {
        let texts = Self.texts(range, queue.layout, bytes: bytes, pack: pack, isTimed: isTimed)
        _ = try await queue.forEach { (shard) async throws(RedisError) in
            guard let texts = texts[shard.keys.shard], !texts.isEmpty else { return }
            try await shard.redis.send(RedisCommand(["LPUSH", .string(shard.keys.jobs)] + texts.map { .string($0) }))
        }
    }

    /// The JSON of the jobs, for each shard.
    ///
    /// - Parameters:
    ///   - bytes: size of a job, or of each source of a pack.
    ///   - pack: number of sources of each job; a pack is for one shard.
    ///   - isTimed: whether the ids contain the time.
    static func texts(
        _ range: Range<Int>,
        _ layout: ShardLayout,
        bytes: Int,
        pack: Int,
        isTimed: Bool
    ) -> [Int: [String]] {
        let time = isTimed ? String(NoOpJob.now()) : "backlog"
        let jobs = range.map { number in
            let others = pack > 1 ? 2 : NoOpJob.json(number, time: time, source: "").utf8.count
            return (number: number, source: NoOpJob.source(number, bytes: bytes - others))
        }
        let shards =
            layout.count == 1
            ? [0: jobs]
            : Dictionary(grouping: jobs) { ShardedSubmitter.shard(of: Job(kind: .fetch, source: $0.source), layout) }
        return shards.mapValues { jobs in
            guard pack > 1 else { return jobs.map { NoOpJob.json($0.number, time: time, source: $0.source) } }
            return stride(from: 0, to: jobs.count, by: pack).map { first in
                let part = jobs[first..<min(jobs.count, first + pack)]
                return NoOpJob.pack(jobs[first].number, time: time, sources: part.map(\.source))
            }
        }
    }

    /// Pushes jobs at a steady rate, up to a hundred times a second, and waits until all are done.
    ///
    /// - Parameter rate: jobs per second.
    /// - Returns: number of jobs that were pushed.
    @discardableResult
    func pushSteadily(_ rate: Int, seconds: Int) async throws -> Int {
        let clock = ContinuousClock()
        let (start, before) = (clock.now, try await done())
        // Several shards share the jobs of one push: packs must not become small for that.
        let step = pack > 1 && queue.isDivided ? pack * Self.steadyPacks * queue.shards.count : 1
        let ticks = seconds * 100
        var pushed = 0
        for tick in 1...ticks {
            try await clock.sleep(until: start + .milliseconds(10 * tick))
            let due = rate * tick / 100
            guard due - pushed >= step || tick == ticks && due > pushed else { continue }
            try await push(pushed..<due)
            pushed = due
        }
        if try await !wait(until: before + pushed) { throw Self.unfinished }
        return pushed
    }

    static let unfinished = CLIError.broken("the jobs did not end in time.")

    /// Waits until `count` jobs are done since the queue was created.
    ///
    /// - Returns: false if that took longer than `limit`.
    func wait(until count: Int, atMost limit: Duration = Self.timeout) async throws -> Bool {
        let deadline = ContinuousClock.now + limit
        while try await done() < count {
            if ContinuousClock.now > deadline { return false }
            try await Task.sleep(for: .milliseconds(2))
        }
        return true
    }

    /// Number of jobs done since the queue was created.
    func done() async throws -> Int {
        try await queue.forEach { (shard) async throws(RedisError) in
            try await shard.redis.send(["HGET", .string(shard.keys.stat), "done"]).int ?? 0
        }.reduce(0, +)
    }
}

/// A job that does nothing, with the time of its push in its id.
enum NoOpJob {
    /// Microseconds of this machine's monotonic clock: pusher and workers are on one machine.
    static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// The source of a job: no two are equal, as equal ones have the same shard.
    ///
    /// - Parameter bytes: its size; longer if the number needs more.
    static func source(_ number: Int, bytes: Int) -> String {
        let head = "https://example.org/\(number)/"
        // `String(repeating:)` appends one character at a time, and would take most of the generator's time.
        let rest = repeatElement(UInt8(ascii: "x"), count: max(0, bytes - head.utf8.count))
        return head + String(decoding: rest, as: UTF8.self)
    }

    /// The full JSON of a job.
    ///
    /// - Parameter time: the time of the push, or a word if it is not measured.
    static func json(_ number: Int, time: String, source: String) -> String {
        #"{"id":"\#(time)-\#(number)","kind":"fetch","source":"\#(source)"}"#
    }

    /// The JSON of a pack.
    ///
    /// - Parameter number: number of its first source.
    static func pack(_ number: Int, time: String, sources: [String]) -> String {
        let list = sources.map { "\"\($0)\"" }.joined(separator: ",")
        return #"{"id":"\#(time)-\#(number)","kind":"fetch","sources":[\#(list)]}"#
    }

    /// Time of a job's push, from its id; nil if the id has none.
    static func pushed(_ id: String) -> Int? { id.split(separator: "-").first.flatMap { Int($0) } }
}
