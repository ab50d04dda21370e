import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import Synchronization

/// Pushes jobs to the public list at a steady rate, and knows when each of them was due.
///
/// Jobs that could not be pushed in time because Redis did not answer are pushed together once it does. Their latency
/// counts from the time at which they were due, as for users' jobs.
final class SteadyLoad: Sendable {
    private struct State {
        var isStopping = false
        /// Milliseconds since 1970 by this machine's clock, as in the workers' histories.
        var start: Double = 0
        var pushed = 0
        var refused = 0
    }

    private let redis: RedisClient
    private let source: String
    private let batch: String
    private let state = Mutex(State())

    /// Interval between two jobs.
    private static let interval: Duration = .milliseconds(20)
    /// Pause after a refused push.
    private static let pause: Duration = .milliseconds(10)

    /// - Parameter redis: a connection that is not shared.
    init(_ redis: RedisClient, source: String, batch: String) {
        self.redis = redis
        self.source = source
        self.batch = batch
    }

    /// Milliseconds since 1970.
    static var now: Double { Date().timeIntervalSince1970 * 1000 }

    /// Time at which the first job was due.
    var start: Double { state.withLock { $0.start } }
    /// Number of jobs pushed.
    var pushed: Int { state.withLock { $0.pushed } }
    /// Number of pushes that Redis refused as busy.
    var refused: Int { state.withLock { $0.refused } }

    func id(_ number: Int) -> String { "\(batch).\(number)" }

    /// Time at which a job was due to be pushed.
    func due(_ number: Int) -> Double { start + Double((Self.interval * number).wholeMilliseconds) }

    /// Ends the load: no further job becomes due.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Pushes until `stop()`.
    func run() async throws {
        let clock = ContinuousClock()
        let start = clock.now
        state.withLock { $0.start = Self.now }
        var next = 0
        while !state.withLock({ $0.isStopping }) {
            let due = Int(start.duration(to: clock.now) / Self.interval) + 1
            if due > next {
                try await push(next..<due)
                next = due
                state.withLock { $0.pushed = due }
            }
            try await clock.sleep(until: start + Self.interval * next)
        }
    }

    /// Pushes these jobs now, or once Redis is no longer busy.
    func push(_ numbers: Range<Int>) async throws {
        let jobs = numbers.map { number -> RedisArgument in
            let job = Job(
                id: id(number),
                source: source,
                renditions: [Rendition(width: 32, height: 32)],
                batch: batch
            )
            return .string(String(decoding: job.json(), as: UTF8.self))
        }
        let command = RedisCommand(["LPUSH", "megaton:{default}:jobs"] + jobs)
        while true {
            do throws(RedisError) {
                try await redis.send(command)
                return
            } catch {
                // Nothing was executed, so the push can be retried.
                guard error.code == .busy else { throw error }
                state.withLock { $0.refused += 1 }
            }
            try await ContinuousClock().sleep(for: Self.pause)
        }
    }
}
