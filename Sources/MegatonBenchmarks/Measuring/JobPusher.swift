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

    private static let pushedAtOnce = 500
    /// Time limit for the jobs; those that are not done by then never will be.
    static let patience: Duration = .seconds(600)

    /// Pushes a backlog.
    ///
    /// - Parameter isTimed: whether the latency from push to start is measured.
    func push(_ count: Int, isTimed: Bool) async throws {
        for first in stride(from: 0, to: count, by: Self.pushedAtOnce) {
            try await push(first..<min(count, first + Self.pushedAtOnce), isTimed)
        }
    }

    private func push(_ range: Range<Int>, _ isTimed: Bool = true) async throws {
        let jobs = range.map { RedisArgument.string(NoOpJob.json($0, bytes: bytes, isTimed: isTimed)) }
        try await redis.send(RedisCommand(["LPUSH", .string(keys.jobs)] + jobs))
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

    static let unfinished = Failure.broken("the jobs were not worked off.")

    /// Waits until `count` jobs are done since the queue was created.
    ///
    /// - Returns: false if that took longer than `limit`.
    func wait(until count: Int, atMost limit: Duration = Self.patience) async throws -> Bool {
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
