import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// Claims of a worker whose disk is full.
@Suite(.timeLimit(.minutes(1))) struct DiskPauseTests {
    private let start = ContinuousClock.now

    @Test func aWorkerWithAFullDiskTriesOneJobAfterEachPause() {
        let disk = DiskPause()
        #expect(disk.limit(at: start) == nil && disk.reason(at: start) == nil)
        #expect(disk.noteFull("full", at: start) == .seconds(10))
        #expect(disk.noteFull("full", at: start + .seconds(9)) == nil, "it began before the pause")
        #expect(!disk.noteRoom(at: start + .seconds(9)), "so did this one")
        #expect(disk.limit(at: start + .seconds(9)) == 0 && disk.reason(at: start + .seconds(9)) == "full")
        #expect(disk.limit(at: start + .seconds(10)) == 1)
        #expect(disk.noteFull("full", at: start + .seconds(11)) == .seconds(20))
        #expect(disk.limit(at: start + .seconds(30)) == 0)
        #expect(disk.limit(at: start + .seconds(31)) == 1)
        #expect(disk.noteRoom(at: start + .seconds(32)) && !disk.noteRoom(at: start + .seconds(32)))
        #expect(disk.limit(at: start + .seconds(32)) == nil && disk.reason(at: start + .seconds(32)) == nil)
        #expect(disk.noteFull("again", at: start + .seconds(33)) == DiskPause.shortest)
    }

    /// Fault: a worker ran one job at a time for as long as none was done, such as those of a host that is down.
    @Test func theLimitEndsIfNoJobFindsTheDiskFull() {
        let disk = DiskPause()
        _ = disk.noteFull("full", at: start)
        #expect(disk.limit(at: start + .seconds(19)) == 1 && disk.reason(at: start + .seconds(19)) == "full")
        #expect(disk.limit(at: start + .seconds(20)) == nil && disk.reason(at: start + .seconds(20)) == nil)
        #expect(disk.noteFull("full", at: start + .seconds(21)) == .seconds(20), "it was not over")
    }

    @Test func aPauseHasALimit() {
        let disk = DiskPause()
        var now = start
        for _ in 0..<20 { now += disk.noteFull("full", at: now) ?? .zero }
        #expect(disk.noteFull("full", at: now) == DiskPause.longest)
    }

    @Test func noPlaceIsFreeDuringAPause() {
        let disk = DiskPause()
        let places = WorkerPlaces(count: 4, waitsForSettlements: false, disk: disk)
        let member = places.add(RunningJobs())
        _ = disk.noteFull("full", at: .now - DiskPause.shortest / 2)
        #expect(places.free(for: member) == 0 && places.reserve(for: member) == 0)
        let over = DiskPause()
        let others = WorkerPlaces(count: 4, waitsForSettlements: false, disk: over)
        let second = others.add(RunningJobs())
        _ = over.noteFull("full", at: .now - DiskPause.shortest)
        #expect(others.free(for: second) == 1 && others.reserve(for: second) == 1)
    }

    @Test func anAttemptThatFindsTheDiskFullIsFreeIfTheWorkerWaits() {
        var retry = RetryPolicy()
        var error = ImagePipeline.Error(.diskFull, "full", isRetryable: false)
        error.isOfStorage = true
        #expect(retry.delay(after: 1, of: 5, error: error, random: 0) == nil && !retry.isFree(error))
        retry.waitsForDisk = true
        #expect(retry.delay(after: 5, of: 5, error: error, random: 0) == .seconds(1) && retry.isFree(error))
        #expect(retry.delay(after: 1, of: 5, error: error, free: 100) == nil, "its outputs fill each disk")
        var readOnly = ImagePipeline.Error(.outputFailed, "read-only")
        readOnly.isOfStorage = true
        #expect(retry.isFree(readOnly, free: 4) && !retry.isFree(readOnly, free: 5))
        // A download that fills the directory for temporary files counts.
        let download = ImagePipeline.Error(.diskFull, "full", isRetryable: true)
        #expect(retry.delay(after: 5, of: 5, error: download) == nil && !retry.isFree(download))
    }

    /// Finds the disk full with its first jobs, and reports each that is done.
    private final class Runner: JobRunning {
        let done: AsyncStream<String>.Continuation
        private let full: Atomic<Int>

        init(full: Int, done: AsyncStream<String>.Continuation) {
            self.full = Atomic(full)
            self.done = done
        }

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            if full.subtract(1, ordering: .relaxed).oldValue > 0 {
                var error = ImagePipeline.Error(.diskFull, "full", isRetryable: false)
                error.isOfStorage = true
                return .failed(error)
            }
            done.yield(job.id ?? "")
            return .done([
                .init(name: "a", path: "/out/a", width: 1, height: 1, format: .png, bytes: 1, sha256: "", from: .render)
            ])
        }
    }

    /// Fault: a worker whose only claim was under way when the pause began slept for ever.
    @Test(arguments: [1, 4]) func aWorkerClaimsAgainAfterThePause(_ places: Int) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let count = 12
            for number in 0..<count { try await fixture.push(QueueFixture.job("j\(number)")) }
            try await fixture.admitAll(count)
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let (stream, continuation) = AsyncStream.makeStream(of: String.self)
            let running = RunningJobs()
            var configuration = Worker.Configuration(control: fixture.server.configuration)
            configuration.concurrency = places
            var retry = RetryPolicy()
            retry.waitsForDisk = true
            let disk = DiskPause(first: .milliseconds(20))
            let shared = WorkerPlaces(count: places, waitsForSettlements: false, disk: disk)
            let runner = DiskWatchingRunner(
                runner: Runner(full: places, done: continuation),
                places: shared,
                logger: logger
            )
            let wake = RedisClient(
                fixture.server.configuration,
                role: "wake",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: logger
            )
            defer { wake.close() }
            let loop = ClaimLoop(
                configuration,
                queue: fixture.queue,
                wake: wake,
                handler: fixture.handler(runner, running: running, places: places, retry: retry),
                running: running,
                places: shared,
                logger: logger
            )
            let signal = ShutdownSignal()
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await loop.run(until: signal) }
                var jobs = stream.makeAsyncIterator()
                var done: Set<String> = []
                while done.count < count - places, let id = await jobs.next() { done.insert(id) }
                #expect(disk.limit() == nil && disk.reason() == nil)
                signal.raise(to: .abort)
            }
            #expect(try await fixture.count("ZCARD", fixture.keys.dead) == 0)
        }
    }
}
