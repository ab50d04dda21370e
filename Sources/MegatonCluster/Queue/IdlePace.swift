internal import MegatonPipeline
import Synchronization

/// Decides how often an idle worker looks for jobs, for sweeps that are missing and for a leader that is missing.
///
/// The workers of a small fleet look as often as a single one. In a larger fleet each looks less often, so that all
/// together look 50 to 150 times a second for each of the three. The size of the fleet comes with each renewal of the
/// leases, and a sleep follows it. A worker looks less often at each of several shards, too.
final class IdlePace: Sendable {
    private let workers = Atomic(1)
    /// See `ShardLayout.idleFactor(of:)`.
    private let shardFactor: @Sendable () -> Int

    /// Largest fleet whose workers look as often as a single one.
    private static let smallFleet = 100
    /// Time that each further worker adds to the intervals of all.
    private static let share: Duration = .milliseconds(20)
    /// The longest time that is added: with it, workers look for jobs every 20 s.
    private static let longestExtra: Duration = .seconds(18)
    /// Part of the added time that is random: workers that started at once, or lost Redis at once, are spread over the
    /// whole interval after two or three looks.
    private static let jitter = 0.5
    /// Time in which a sleep does not follow the size of the fleet: a part of the sleep, within these limits. A step
    /// costs no command, but a timer, and a machine may have many workers.
    private static let steps: ClosedRange<Duration> = .seconds(1)...(.seconds(5))
    /// Number of steps of a sleep, except for short and long ones.
    private static let stepsOfSleep = 4

    init(shardFactor: @escaping @Sendable () -> Int = { 1 }) {
        self.shardFactor = shardFactor
    }

    /// Follows the size of the fleet.
    ///
    /// - Parameter workers: number of living workers, as of a renewal.
    func observe(workers: Int) { self.workers.store(workers, ordering: .relaxed) }

    /// Whether so many workers look for jobs that a lost token costs little.
    var isLargeFleet: Bool { workers.load(ordering: .relaxed) > Self.smallFleet }

    /// The interval between two looks.
    ///
    /// - Parameters:
    ///   - shortest: that of a small fleet and one shard.
    ///   - random: 0 for the longest interval, 1 for the shortest.
    func interval(_ shortest: Duration, random: Double = .random(in: 0...1)) -> Duration {
        let further = max(workers.load(ordering: .relaxed) - Self.smallFleet, 0)
        let extra = min(Self.share * further, Self.longestExtra)
        return (shortest + extra * (1 - Self.jitter * random)) * shardFactor()
    }

    /// Time between two checks of a sleep whose shortest interval is given: see `isOver`.
    func checkInterval(_ shortest: Duration) -> Duration { Self.step(of: interval(shortest, random: 1)) }

    private static func step(of sleep: Duration) -> Duration {
        min(max(steps.lowerBound, sleep / stepsOfSleep), steps.upperBound)
    }

    /// Whether a sleep of this time is longer than any of the present fleet: it began when the fleet was larger.
    func isOver(_ shortest: Duration, after slept: Duration) -> Bool { slept > interval(shortest, random: 0) }

    /// Sleeps for one interval. It ends sooner if the fleet has become so much smaller meanwhile that the interval is
    /// over, and at once if the task is cancelled.
    func sleep(_ shortest: Duration, clock: any Clock<Duration> = ContinuousClock()) async {
        let random = Double.random(in: 0...1)
        var slept: Duration = .zero
        while !Task.isCancelled {
            let whole = interval(shortest, random: random)
            if whole <= slept { return }
            let step = min(whole - slept, Self.step(of: whole))
            try? await clock.sleep(for: step)  // Throws only if the task is cancelled.
            slept += step
        }
    }
}
