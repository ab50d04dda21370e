import Foundation
import Synchronization
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct RateLimiterTests {
    private let clock = ManualClock()

    /// Starts tasks in order: each waits before the next starts.
    private func start(
        _ count: Int,
        _ limiter: RateLimiter,
        _ host: String,
        done: @escaping @Sendable (Int) -> Void
    ) async -> [Task<Void, any Error>] {
        var tasks: [Task<Void, any Error>] = []
        for number in 0..<count {
            let before = limiter.waitingCount
            // Awaited or cancelled by the test.
            tasks.append(
                Task {
                    try await limiter.acquire(host)
                    done(number)
                }
            )
            while limiter.waitingCount == before, !Task.isCancelled { await Task.yield() }
        }
        return tasks
    }

    /// A burst passes at once.
    @Test func aBurstPassesAtOnce() async throws {
        let limiter = RateLimiter(rate: 1, burst: 5, maximumWaiting: 0, clock: clock)
        for _ in 0..<5 { try await limiter.acquire("a") }
        await #expect(throws: ImagePipeline.Error.self) { try await limiter.acquire("a") }
        try await limiter.acquire("b")
        clock.advance(by: .seconds(2))
        for _ in 0..<2 { try await limiter.acquire("a") }
        await #expect(throws: ImagePipeline.Error.self) { try await limiter.acquire("a") }
        clock.advance(by: .seconds(1000))
        for _ in 0..<5 { try await limiter.acquire("a") }
        await #expect(throws: ImagePipeline.Error.self) { try await limiter.acquire("a") }
    }

    @Test func waitersPassInTheirOrderAtTheRate() async throws {
        let limiter = RateLimiter(rate: 10, burst: 1, clock: clock)
        try await limiter.acquire("a")
        let (passes, continuation) = AsyncStream.makeStream(of: Int.self)
        let tasks = await start(4, limiter, "a") { continuation.yield($0) }
        var iterator = passes.makeAsyncIterator()
        for expected in 0..<4 {
            await clock.waitForSleepers(1)
            #expect(limiter.waitingCount == 4 - expected)
            clock.advance(by: .milliseconds(99))
            #expect(limiter.waitingCount == 4 - expected, "its time has not come")
            clock.advance(by: .milliseconds(1))
            #expect(await iterator.next() == expected)
        }
        for task in tasks { try await task.value }
        #expect(limiter.waitingCount == 0)
    }

    /// A cancelled acquire takes no token.
    @Test(arguments: [0, 1, 2]) func aCancelledWaiterTakesNoToken(which: Int) async throws {
        let limiter = RateLimiter(rate: 1, burst: 1, clock: clock)
        try await limiter.acquire("a")
        let (passes, continuation) = AsyncStream.makeStream(of: Int.self)
        let tasks = await start(3, limiter, "a") { continuation.yield($0) }
        await clock.waitForSleepers(1)
        tasks[which].cancel()
        await #expect { try await tasks[which].value } throws: { ($0 as? ImagePipeline.Error)?.code == .cancelled }
        #expect(limiter.waitingCount == 2)
        var iterator = passes.makeAsyncIterator()
        // Waiters behind it move up: the first one is still due after the first second.
        for expected in 0..<3 where expected != which {
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(1))
            #expect(await iterator.next() == expected)
        }
    }

    @Test func aTaskCancelledBeforeTakesNoToken() async throws {
        let limiter = RateLimiter(rate: 1, burst: 1, maximumWaiting: 0, clock: clock)
        let gate = TaskQueue(maxConcurrentOperationCount: 1)
        gate.isSuspended = true
        // Awaited below.
        let task = Task {
            try? await gate.perform { () throws(ImagePipeline.Error) in }
            try await limiter.acquire("a")
        }
        task.cancel()
        await #expect(throws: ImagePipeline.Error.self) { try await task.value }
        try await limiter.acquire("a")
    }

    @Test func noCallerOvertakesAWaiter() async throws {
        let limiter = RateLimiter(rate: 1, burst: 1, clock: clock)
        try await limiter.acquire("a")
        let order = Mutex<[Int]>([])
        let first = await start(1, limiter, "a") { _ in order.withLock { $0.append(1) } }
        await clock.waitForSleepers(1)
        let second = await start(1, limiter, "a") { _ in order.withLock { $0.append(2) } }
        clock.advance(by: .seconds(1))
        try await first[0].value
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        try await second[0].value
        #expect(order.withLock { $0 } == [1, 2])
    }

    @Test func hostsDoNotWaitForEachOther() async throws {
        let limiter = RateLimiter(rate: 1, burst: 1, clock: clock)
        try await limiter.acquire("a")
        let waiting = await start(1, limiter, "a") { _ in }
        try await limiter.acquire("b")
        try await limiter.acquire(for: URL(string: "https://Example.org/x")!)
        let same = await start(1, limiter, "example.org:443") { _ in }
        await clock.waitForSleepers(2)
        clock.advance(by: .seconds(1))
        try await waiting[0].value
        try await same[0].value
        try await limiter.acquire(for: URL(string: "http://example.org/x")!)
    }

    @Test func onlySoManyWait() async throws {
        let limiter = RateLimiter(rate: 2, burst: 1, maximumWaiting: 2, clock: clock)
        try await limiter.acquire("a")
        let tasks = await start(2, limiter, "a") { _ in }
        do {
            try await limiter.acquire("a")
            Issue.record("it should have been refused")
        } catch {
            #expect(error.code == .throttled && error.retryAfter == 1.5 && error.isRetryable)
        }
        try await limiter.acquire("b")
        for task in tasks { task.cancel() }
        for task in tasks { _ = await task.result }
        #expect(limiter.waitingCount == 0)
    }

    @Test func hostsThatAreFullAgainAreForgotten() async throws {
        let limiter = RateLimiter(rate: 1000, burst: 10, clock: clock)
        for host in 0..<5000 {
            try await limiter.acquire("\(host)")
            clock.advance(by: .milliseconds(1))
        }
        #expect(limiter.hostCount <= 1024)
    }

    @Test func manyMayAskAtTheSameTime() async throws {
        let limiter = RateLimiter(rate: 100_000, burst: 10)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<500 {
                group.addTask { try await limiter.acquire("\(number % 3)") }
            }
            try await group.waitForAll()
        }
        #expect(limiter.waitingCount == 0)
    }
}
