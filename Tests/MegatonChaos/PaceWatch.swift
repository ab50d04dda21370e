import MegatonCluster
import MegatonRedis
import Synchronization

/// Watches the queue throughout a run: no long interval without a completed job while jobs are ready, a place is free
/// and Redis is reachable.
///
/// Looks directly at the control Redis, not through its proxy.
final class PaceWatch: Sendable {
    /// The state of all shards.
    struct Sample: Sendable {
        /// Jobs that were pushed and are not admitted yet.
        var unread = 0
        var ready = 0
        var running = 0
        /// Jobs that wait for their host, their time or their next attempt.
        var waiting = 0
        var held = 0
        /// Attempts that ended, also those that will be repeated.
        var ended = 0

        /// Whether all jobs have ended but those that wait.
        var isSettled: Bool { unread + ready + running == 0 }

        var text: String {
            "unread \(unread), ready \(ready), running \(running), waiting \(waiting), of them held \(held), "
                + "ended \(ended)"
        }
    }

    private struct State {
        var isStopping = false
        var longest: Duration = .zero
        var watched = 0
        var violations: [String] = []
    }

    private let inspectors: [Inspector]
    private let places: Int
    private let faults: FaultClock
    private let state = Mutex(State())

    private static let interval: Duration = .milliseconds(500)
    /// Running jobs may all wait for the fetches of a worker that was killed or stopped: its flights last 10 s. A job
    /// of a slow host takes two seconds more, and a pack settles its sources every five; these may coincide with a busy
    /// machine. A queue that stands still for want of a decision does so for a lease (15 s), or for good.
    private static let limit: Duration = .seconds(15)

    /// - Parameter places: all places of the workers.
    init(_ queues: [JobQueue], places: Int, faults: FaultClock) {
        inspectors = queues.map { Inspector(queue: $0, cache: $0.redis) }
        self.places = places
        self.faults = faults
    }

    var longest: Duration { state.withLock { $0.longest } }
    /// Number of looks at a queue with ready jobs, a free place and reachable Redis.
    var watched: Int { state.withLock { $0.watched } }
    var violations: [String] { state.withLock { $0.violations } }

    func sample() async throws(RedisError) -> Sample {
        var sample = Sample()
        for inspector in inspectors {
            let status = try await inspector.status()
            sample.unread += status.intake + status.staged
            sample.ready += status.ready
            sample.running += status.running
            sample.waiting += status.held + status.delayed
            sample.held += status.held
            sample.ended += status.done + status.failed + status.cancelled + status.retried
        }
        return sample
    }

    /// Ends `run`.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Watches until `stop()`.
    func run() async {
        let clock = ContinuousClock()
        var (began, last, isReported) = (clock.now, Sample?.none, false)
        while !state.withLock({ $0.isStopping }) {
            try? await clock.sleep(for: Self.interval)
            let (sample, now) = (try? await sample(), clock.now)
            defer { last = sample }
            guard let sample, sample.ready > 0, sample.running < places, !faults.excusesStandstill else {
                (began, isReported) = (now, false)
                continue
            }
            state.withLock { $0.watched += 1 }
            if sample.ended != last?.ended {
                (began, isReported) = (now, false)
                continue
            }
            let still = began.duration(to: now)
            state.withLock { $0.longest = max($0.longest, still) }
            if still <= Self.limit || isReported { continue }
            isReported = true
            let violation =
                "rate: no job ended from \(faults.seconds(at: began)) to \(faults.seconds(at: now)) of the run, "
                + "although jobs were ready and places free, \(faults.text): \(sample.text), places \(places)"
            state.withLock { $0.violations.append(violation) }
        }
    }
}
