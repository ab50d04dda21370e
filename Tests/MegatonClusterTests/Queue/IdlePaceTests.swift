import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// Fault: an idle fleet of 1,000 workers sent 5,900 commands a second to its control Redis.
struct IdlePaceTests {
    /// Intervals of a small fleet: those at which a worker looks for a leader and for jobs.
    private static let intervals: [Duration] = [.seconds(1), .seconds(2)]

    private func pace(_ workers: Int, shards: Int = 1) -> IdlePace {
        let pace = IdlePace(shardFactor: { ShardLayout.idleFactor(of: shards) })
        pace.observe(workers: workers)
        return pace
    }

    @Test(arguments: [0, 1, 10, 100])
    func workersOfASmallFleetLookAsOftenAsOne(_ workers: Int) {
        for shortest in Self.intervals {
            #expect(pace(workers).interval(shortest) == shortest)
            #expect(pace(workers, shards: 3).interval(shortest) == shortest * 3)
        }
        #expect(IdlePace().interval(.seconds(1)) == .seconds(1), "before the first renewal")
    }

    @Test(arguments: [101, 200, 500, 1_000])
    func workersOfALargerFleetTogetherLookAsOftenAsAHundred(_ workers: Int) {
        for random in [0, 0.5] {
            let looks = Double(workers) / pace(workers).interval(.seconds(2), random: random).inSeconds
            #expect((49...66).contains(looks), "\(looks)")
            let others = Double(workers) / pace(workers).interval(.seconds(1), random: random).inSeconds
            #expect((49...100).contains(others), "\(others)")
        }
    }

    @Test func intervalsHaveACeiling() {
        for workers in [1_000, 1_001, 100_000] {
            #expect(pace(workers).interval(.seconds(2), random: 0) == .seconds(20))
            #expect(pace(workers, shards: 5).interval(.seconds(2), random: 0) == .seconds(100))
            #expect(pace(workers, shards: 128).interval(.seconds(2), random: 0) == .seconds(100))
        }
    }

    /// Workers that started at once do not look at once.
    @Test func intervalsOfALargeFleetAreSpread() {
        let pace = pace(1_000)
        let intervals = (0..<200).map { _ in pace.interval(.seconds(2)) }
        #expect(intervals.allSatisfy { (.seconds(11)...(.seconds(20))).contains($0) })
        #expect(Set(intervals.map(\.wholeMilliseconds)).count > 100)
    }

    @Test(arguments: [1, 100, 1_000])
    func severalShardsCostNoMoreThanOne(_ workers: Int) {
        let one = 1 / pace(workers).interval(.seconds(2), random: 0).inSeconds
        for shards in 2...5 {
            let all = Double(shards) / pace(workers, shards: shards).interval(.seconds(2), random: 0).inSeconds
            #expect(all <= one * 1.001)
        }
    }

    @Test(arguments: [(1, Duration.seconds(1)), (100, .seconds(1)), (1_000, .milliseconds(2_750))])
    func aLargeFleetChecksItsSleepsLessOften(workers: Int, interval: Duration) {
        #expect(pace(workers).checkInterval(.seconds(2)) == interval)
        #expect(pace(workers, shards: 5).checkInterval(.seconds(2)) <= .seconds(5))
    }

    @Test func aSleepOfSeveralShardsEndsAsSoon() async {
        let pace = pace(1_000, shards: 5)
        let clock = StepClock { if $0 >= .seconds(11) { pace.observe(workers: 1) } }
        await pace.sleep(.seconds(1), clock: clock)
        #expect((.seconds(11)...(.seconds(16))).contains(clock.now.offset), "\(clock.now.offset)")
    }

    // MARK: - A fleet that becomes smaller or larger

    @Test func aSleepEndsWhenTheFleetIsSmall() async {
        let pace = pace(1_000)
        let clock = StepClock { if $0 >= .seconds(3) { pace.observe(workers: 1) } }
        await pace.sleep(.seconds(1), clock: clock)
        // With the next step, which is a quarter of at most 19 s.
        #expect((.seconds(3)...(.seconds(6))).contains(clock.now.offset), "\(clock.now.offset)")
    }

    @Test func aSleepFollowsAFleetThatHasLostAPart() async {
        let pace = pace(1_000)
        let clock = StepClock { if $0 >= .seconds(1) { pace.observe(workers: 300) } }
        await pace.sleep(.seconds(1), clock: clock)
        #expect((.seconds(3)...(.seconds(5))).contains(clock.now.offset), "\(clock.now.offset)")
    }

    @Test func aSleepFollowsAFleetThatGrows() async {
        let pace = pace(1)
        let clock = StepClock { if $0 >= .milliseconds(500) { pace.observe(workers: 1_000) } }
        await pace.sleep(.seconds(2), clock: clock)
        #expect(clock.now.offset >= .seconds(11))
    }

    @Test func aSleepOfALargerFleetIsOver() {
        let pace = pace(1_000)
        #expect(!pace.isOver(.seconds(2), after: .seconds(20)))
        #expect(pace.isOver(.seconds(2), after: .seconds(21)))
        pace.observe(workers: 1)
        #expect(!pace.isOver(.seconds(2), after: .seconds(2)) && pace.isOver(.seconds(2), after: .seconds(3)))
    }

    @Test(.timeLimit(.minutes(1)))
    func cancellationEndsASleep() async {
        let pace = pace(1_000)
        let sleep = Task { await pace.sleep(.seconds(600)) }
        sleep.cancel()
        await sleep.value
    }

    // MARK: - With Redis

    @Test func aRenewalReturnsTheNumberOfLivingWorkers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            func renew(_ worker: String) async throws -> Int {
                try await fixture.queue.renew([], worker: worker, lease: .seconds(60), info: "{}").workers
            }
            #expect(try await renew("w1") == 1)
            #expect(try await renew("w2") == 2)
            #expect(try await renew("w2") == 2)
            // A worker that was killed stays in the set until a sweep removes it.
            try await fixture.redis.send(["ZADD", .string(fixture.keys.workers), "XX", "1", "w1"])
            #expect(try await renew("w2") == 1)
        }
    }

    @Test func aHeartbeatFollowsTheFleet() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let pace = IdlePace()
            let heartbeat = fixture.heartbeat(pace: pace)
            let now = try await fixture.queue.now()
            let others = (1..<1_000).flatMap { [RedisArgument.int(Int(now)), .string("w\($0)")] }
            try await fixture.redis.send(RedisCommand(["ZADD", .string(fixture.keys.workers)] + others))
            #expect(await heartbeat.renew() == nil)
            #expect(pace.interval(.seconds(2), random: 0) == .seconds(20))
            try await fixture.redis.send(["DEL", .string(fixture.keys.workers)])
            #expect(await heartbeat.renew() == nil)
            #expect(pace.interval(.seconds(2), random: 0) == .seconds(2))
        }
    }

    /// The description of an idle worker stays the same, and is not written with each heartbeat.
    @Test func aHeartbeatWritesADescriptionOnce() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let heartbeat = fixture.heartbeat(pace: IdlePace())
            func description() async throws -> String? {
                try await fixture.redis.send(["HGET", .string(fixture.keys.workerInfo), "w0"]).string
            }
            await heartbeat.renew()
            let first = try await description()
            #expect(first?.hasPrefix("0 {") == true)
            let before = try await fixture.redis.calls("hset")
            await heartbeat.renew()
            #expect(try await fixture.redis.calls("hset") == before)
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            heartbeat.running.insert(try await fixture.claim(worker: "w0")[0])
            await heartbeat.renew()
            #expect(try await description()?.hasPrefix("1 {") == true)
            // A sweep that has forgotten the worker by mistake, or a Redis that has lost its data.
            try await fixture.redis.send(["DEL", .string(fixture.keys.workers), .string(fixture.keys.workerInfo)])
            await heartbeat.renew()
            #expect(try await description()?.hasPrefix("1 {") == true)
        }
    }

    /// Fault: a claim that found nothing ran twelve commands.
    @Test func aClaimOfAnIdleFleetIsOneRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await fixture.claim().isEmpty)
            let before = try await commands(fixture)
            #expect(try await fixture.claim().isEmpty)
            // The first INFO, the script and its read.
            #expect(try await commands(fixture) == before + 3)
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            #expect(try await fixture.claim().map(\.id) == ["a"])
        }
    }

    // MARK: -

    /// Commands since the server started, with those within scripts.
    private func commands(_ fixture: QueueFixture) async throws -> Int {
        let info = try await fixture.redis.send(["INFO", "stats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("total_commands_processed:") }
        return try #require(line.flatMap { Int($0.drop { $0 != ":" }.dropFirst()) })
    }
}

/// A clock on which each sleep is over at once, and is then reported with the time since the start.
private final class StepClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration = .zero

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (one: Instant, other: Instant) -> Bool { one.offset < other.offset }
    }

    private let state = Mutex(Instant())
    private let didSleep: @Sendable (Duration) -> Void

    init(didSleep: @escaping @Sendable (Duration) -> Void) { self.didSleep = didSleep }

    var now: Instant { state.withLock { $0 } }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let now = state.withLock { now in
            now = max(now, deadline)
            return now
        }
        didSleep(now.offset)
    }
}
