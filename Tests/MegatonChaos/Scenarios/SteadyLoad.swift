import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import Synchronization

/// Pushes jobs to the public list at a steady rate, and knows when each of them was due.
///
/// What could not be pushed in time, as Redis did not answer, is pushed together as soon as it does: it waits from the
/// moment at which it was due, as users' jobs would.
final class SteadyLoad: Sendable {
    private struct State {
        var isStopping = false
        /// Milliseconds since 1970 by this machine's clock, which the workers' histories have as well.
        var start: Double = 0
        var pushed = 0
        var refused = 0
    }

    private let redis: RedisClient
    private let source: String
    private let batch: String
    private let state = Mutex(State())

    /// Between two jobs.
    private static let interval: Duration = .milliseconds(20)
    /// After a push that was refused.
    private static let pause: Duration = .milliseconds(10)

    /// - Parameter redis: a connection that nothing else uses.
    init(_ redis: RedisClient, source: String, batch: String) {
        self.redis = redis
        self.source = source
        self.batch = batch
    }

    /// Milliseconds since 1970.
    static var now: Double { Date().timeIntervalSince1970 * 1000 }

    /// When the first job was due.
    var start: Double { state.withLock { $0.start } }
    /// How many jobs were pushed.
    var pushed: Int { state.withLock { $0.pushed } }
    /// Pushes that were told that Redis is busy.
    var refused: Int { state.withLock { $0.refused } }

    func id(_ number: Int) -> String { "\(batch).\(number)" }

    /// When a job was due to be pushed.
    func due(_ number: Int) -> Double { start + Double((Self.interval * number).wholeMilliseconds) }

    /// No job is due after this.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Pushes until it is stopped.
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

    /// Pushes these jobs now; while Redis is busy, when it no longer is.
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
                // Nothing was executed: it may be repeated.
                guard error.code == .busy else { throw error }
                state.withLock { $0.refused += 1 }
            }
            try await ContinuousClock().sleep(for: Self.pause)
        }
    }
}
