import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Pushes jobs that do nothing, and waits for their end.
struct JobPusher: Sendable {
    let redis: RedisClient
    let keys: QueueKeys
    /// Size of a job's JSON.
    let bytes: Int
    /// Number of sources of each job.
    var pack = 1

    private static let pushedAtOnce = 500
    /// Time limit for the jobs; those that are not done by then never will be.
    static let timeout: Duration = .seconds(600)

    /// Pushes a backlog.
    ///
    /// - Parameter isTimed: whether the latency from push to start is measured.
    func push(_ count: Int, isTimed: Bool) async throws {
        let step = (Self.pushedAtOnce + pack - 1) / pack * pack
        for first in stride(from: 0, to: count, by: step) {
            try await push(first..<min(count, first + step), isTimed)
        }
    }

    private func push(_ range: Range<Int>, _ isTimed: Bool = true) async throws {
        if pack > 1 {
            try await pushPacks(range, isTimed)
            return
        }
        let jobs = range.map { RedisArgument.string(NoOpJob.json($0, bytes: bytes, isTimed: isTimed)) }
        try await redis.send(RedisCommand(["LPUSH", .string(keys.jobs)] + jobs))
    }

    private func pushPacks(_ range: Range<Int>, _ isTimed: Bool) async throws {
        let packs = stride(from: range.lowerBound, to: range.upperBound, by: pack).map { first in
            let numbers = first..<min(range.upperBound, first + pack)
            return RedisArgument.string(NoOpJob.pack(numbers, bytes: bytes, isTimed: isTimed))
        }
        try await redis.send(RedisCommand(["LPUSH", .string(keys.jobs)] + packs))
    }

    /// Pushes jobs at a steady rate, a hundred times a second, and waits until all are done.
    ///
    /// - Parameter rate: jobs per second.
    func pushSteadily(_ rate: Int, seconds: Int) async throws {
        let clock = ContinuousClock()
        let (start, before) = (clock.now, try await done())
        var pushed = 0
        for tick in 1...(seconds * 100) {
            try await clock.sleep(until: start + .milliseconds(10 * tick))
            let due = rate * tick / 100
            if due > pushed { try await push(pushed..<due) }
            pushed = due
        }
        if try await !wait(until: before + pushed) { throw Self.unfinished }
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
    func done() async throws -> Int { try await redis.send(["HGET", .string(keys.stat), "done"]).int ?? 0 }
}

/// A job that does nothing, with the time of its push in its id.
enum NoOpJob {
    /// Microseconds of this machine's monotonic clock: pusher and workers are on one machine.
    static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// The full JSON of a job, at least `bytes` bytes long.
    ///
    /// - Parameter isTimed: whether the id contains the time of the push.
    static func json(_ number: Int, bytes: Int, isTimed: Bool = true) -> String {
        let time = isTimed ? String(now()) : "backlog"
        let head = #"{"id":"\#(time)-\#(number)","kind":"fetch","source":"https://example.org/"#
        return head + String(repeating: "x", count: max(0, bytes - head.utf8.count - 2)) + #""}"#
    }

    /// The JSON of a pack, about `bytes` bytes for each source.
    ///
    /// - Parameter isTimed: whether the id contains the time of the push.
    static func pack(_ numbers: Range<Int>, bytes: Int, isTimed: Bool) -> String {
        let sources = numbers.map { number in
            let head = "\"https://example.org/\(number)/"
            return head + String(repeating: "x", count: max(0, bytes - head.utf8.count - 1)) + "\""
        }
        let time = isTimed ? String(now()) : "backlog"
        return
            #"{"id":"\#(time)-\#(numbers.lowerBound)","kind":"fetch","sources":[\#(sources.joined(separator: ","))]}"#
    }

    /// Time of a job's push, from its id; nil if the id has none.
    static func pushed(_ id: String) -> Int? { id.split(separator: "-").first.flatMap { Int($0) } }
}
