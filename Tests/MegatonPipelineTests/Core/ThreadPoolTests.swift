import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(1))) struct ThreadPoolTests {
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

    private struct Abandoned: Error {}

    /// The thread goes on, and neither its result nor a second error reaches anybody.
    @Test func aCallerStopsWaitingForAbandonedWork() async throws {
        let pool = ThreadPool(name: "test", count: 1)
        defer { pool.stop() }
        let gate = DispatchSemaphore(value: 0)
        await #expect(throws: Abandoned.self) {
            try await pool.runUnlessAbandoned { abandon in
                abandon(Abandoned())
                abandon(CancellationError())
                gate.wait()
            }
        }
        gate.signal()
        let next = try await pool.run { 1 }
        #expect(next == 1, "the thread has ended the work that was abandoned")
    }

    @Test func theKernelKnowsTheNamesOfThreads() async throws {
        let pool = ThreadPool(name: "megaton-painter", count: 1)
        defer { pool.stop() }
        let name = try await pool.run { try String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8) }
        #expect(name == "megaton-painter\n", "15 characters of it")
    }
}
