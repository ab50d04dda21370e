import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonCore
@testable import MegatonPipeline

/// Jobs that are stopped while they run, and the leases by which a worker stops them.
@Suite(.timeLimit(.minutes(1))) struct StoppedJobTests {
    /// Works until it is cancelled.
    private final class Runner: JobRunning {
        let begun = AsyncSignal()
        /// The thread that is calling `stop`.
        let stopping = Mutex<pthread_t?>(nil)
        let isCancelledWithinStop = Atomic(false)

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            begun.signal()
            await withTaskCancellationHandler {
                await AsyncSignal().wait()
            } onCancel: {
                let isWithin = stopping.withLock { $0 == pthread_self() }
                if isWithin { isCancelledWithinStop.store(true, ordering: .releasing) }
            }
            return Task.isCancelled ? .done([]) : .failed(ImageError(.notFound, "it was not cancelled"))
        }
    }

    private func job(_ id: String, validUntil: ContinuousClock.Instant = .now + .seconds(60)) throws -> ActiveJob {
        let fields: [RedisValue] =
            [id, "1", "0", "{}", "", "0", "0", "0", "0", "0", "-1"].map { .bulk(ByteBuffer(string: $0)) }
        return try #require(ActiveJob(.array(fields), validUntil: validUntil))
    }

    /// The claimed job of the batch `b`.
    private func claimed(_ fixture: QueueFixture, _ running: RunningJobs) async throws -> ActiveJob {
        try await fixture.submit([QueueFixture.job("1", batch: "b")], to: "b")
        try await fixture.admit()
        let active = try #require(try await fixture.claim().first)
        running.insert(active)
        return active
    }

    @Test func aStopCallsTheBodyThatIsThere() throws {
        let job = try job("1")
        let calls = Mutex<[Int]>([])
        job.onStop { calls.withLock { $0.append(1) } }
        job.onStop { calls.withLock { $0.append(2) } }
        job.stop(.leaseLost)
        #expect(calls.withLock { $0 } == [2])
        job.onStop { calls.withLock { $0.append(3) } }
        #expect(calls.withLock { $0 } == [2, 3], "it was stopped before")
        job.onStop(nil)
        job.stop(.shutdown)
        #expect(calls.withLock { $0 } == [2, 3])
        #expect(job.reason == .leaseLost, "the first reason stays")
    }

    @Test func aCancelledJobEndsAndFreesItsPlace() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Runner(), RunningJobs())
            let active = try await claimed(fixture, running)
            let handler = fixture.handler(runner, running: running)
            async let end: Void = handler.handle(active)
            await runner.begun.wait()
            active.stop(.batchCancelled)
            await end
            #expect(try await fixture.batch("b")["cancelled"] == 1)
            #expect(running.count == 0)
        }
    }

    @Test func aHeartbeatRenewsAllLeasesBeforeItStopsAJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (running, count) = (RunningJobs(), 8)
            try await fixture.submit((1...count).map { QueueFixture.job("\($0)", batch: "b") }, to: "b")
            try await fixture.admitAll(count)
            let jobs = try await fixture.claim(count)
            #expect(jobs.count == count)
            let claimed = ContinuousClock.now + .seconds(60)
            let stops = Mutex<[Bool]>([])
            for job in jobs {
                running.insert(job)
                job.onStop {
                    let isRenewed = jobs.allSatisfy { $0.validUntil > claimed }
                    stops.withLock { $0.append(isRenewed) }
                }
            }
            _ = try await fixture.queue.cancel(batch: "b")
            let heartbeat = fixture.heartbeat(of: "w1", running, lease: .seconds(600))
            #expect(await heartbeat.renew() == nil)
            #expect(stops.withLock { $0 } == Array(repeating: true, count: count))
        }
    }

    /// The heartbeat stops jobs, and must not wait for their cancellation handlers.
    @Test func aStopDoesNotRunTheCancellationHandlersOfTheJob() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Runner(), RunningJobs())
            let active = try await claimed(fixture, running)
            let handler = fixture.handler(runner, running: running)
            async let end: Void = handler.handle(active)
            await runner.begun.wait()
            runner.stopping.withLock { $0 = pthread_self() }
            active.stop(.batchCancelled)
            runner.stopping.withLock { $0 = nil }
            await end
            let isWithin = runner.isCancelledWithinStop.load(ordering: .acquiring)
            #expect(!isWithin)
        }
    }

    /// The result of cancelled work would count as an attempt, or as the end of the job.
    @Test func aWorkerWhoseTaskIsCancelledReportsNothing() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Runner(), RunningJobs())
            let active = try await claimed(fixture, running)
            let handler = fixture.handler(runner, running: running)
            let worker = Task { await handler.handle(active) }
            await runner.begun.wait()
            worker.cancel()
            await worker.value
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 0 && batch["failed"] == 0 && batch["cancelled"] == 0)
        }
    }

    @Test func theFirstLeaseThatExpiresIsTheNextToFence() throws {
        let (running, now) = (RunningJobs(), ContinuousClock.now)
        #expect(running.nextExpiry == nil)
        for (id, seconds) in [("1", 9), ("2", 3), ("3", 6)] {
            running.insert(try job(id, validUntil: now + .seconds(seconds)))
        }
        #expect(running.nextExpiry == now + .seconds(3))
        #expect(running.fence(at: now + .seconds(2)) == 0)
        #expect(running.fence(at: now + .seconds(3)) == 1)
        #expect(running.nextExpiry == now + .seconds(6), "the other one was stopped")
    }
}
