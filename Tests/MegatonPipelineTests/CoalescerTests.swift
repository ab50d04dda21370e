import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(1))) struct CoalescerTests {
    private let key = CacheKey(.original, ["a"])

    @Test func theFirstLeadsAndAllGetItsResult() async throws {
        let coalescer = Coalescer<Int>()
        #expect(coalescer.enter([key]).led == [key])
        let flights = (0..<10).map { _ in coalescer.enter([key]).joined[0].1 }
        async let results = withTaskGroup(of: Int?.self) { group in
            for flight in flights { group.addTask { try? await flight.outcome().get() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        coalescer.land(key, .success(7))
        #expect(await results == Array(repeating: 7, count: 10))
        #expect(coalescer.enter([key]).led == [key], "what has landed is forgotten")
    }

    @Test func aFollowerThatIsCancelledDoesNotStopTheWork() async throws {
        let coalescer = Coalescer<Int>()
        _ = coalescer.enter([key])
        let flight = coalescer.enter([key]).joined[0].1
        let follower = Task { await flight.outcome() }  // Awaited below.
        follower.cancel()
        let outcome = await follower.value
        #expect { try outcome.get() } throws: { ($0 as? ImagePipeline.Error)?.code == .cancelled }
        coalescer.land(key, .success(1))
        #expect(try await flight.outcome().get() == 1)
    }

    @Test func aSemaphoreLetsSoManyInAndNoMore() async throws {
        let semaphore = AsyncSemaphore(3)
        let gauge = Gauge()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try await semaphore.withPlace { () async throws(ImagePipeline.Error) in
                        gauge.enter()
                        await Task.yield()
                        gauge.leave()
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect((1...3).contains(gauge.most))
    }

    @Test func aPoolRunsOnItsOwnThreadsAndSkipsWhatIsCancelled() async throws {
        let pool = ThreadPool(name: "test", count: 1)
        defer { pool.stop() }
        let gate = DispatchSemaphore(value: 0)
        let first = Task { try await pool.run { gate.wait() } }  // Awaited below.
        let second = Task { try await pool.run { Issue.record("it was cancelled before it began") } }  // Awaited below.
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        gate.signal()
        try await first.value
        let (one, other) = try await (pool.run { pthread_self() }, pool.run { pthread_self() })
        #expect(one == other, "one thread does it all")
    }
}

/// How many are inside, and how many were at the most.
private final class Gauge: Sendable {
    private let counts = Mutex((now: 0, most: 0))

    var most: Int { counts.withLock { $0.most } }

    func enter() {
        counts.withLock { counts in
            counts.now += 1
            counts.most = max(counts.most, counts.now)
        }
    }

    func leave() { counts.withLock { $0.now -= 1 } }
}
