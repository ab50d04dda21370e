import MegatonCore
import Testing

@Suite(.timeLimit(.minutes(1))) struct RetryingTests {
    private struct Failure: Error, Equatable {
        let number: Int
    }

    private let clock = ManualClock()

    @Test func anAttemptIsRepeatedAfterAPauseUntilItSucceeds() async throws {
        let task = Task { [clock] in
            var attempts = 0
            return try await retrying(clock: clock) { () throws(Failure) in
                attempts += 1
                if attempts < 4 { throw Failure(number: attempts) }
                return attempts
            } pauseAfter: { error in
                .seconds(error.number)
            }
        }
        for number in 1...3 {
            #expect(await clock.sleeper() == .seconds(number))
            clock.advance(by: .seconds(number))
        }
        #expect(try await task.value == 4)
    }

    @Test func theErrorIsThrownAtTheLimit() async {
        let task = Task { [clock] in
            let start = clock.now
            var attempts = 0
            try await retrying(until: start.duration(to: clock.now) >= .seconds(10), clock: clock) {
                () throws(Failure) in
                attempts += 1
                throw Failure(number: attempts)
            } pauseAfter: { _ in
                .seconds(6)
            }
        }
        for _ in 0..<2 {
            await clock.waitForSleepers(1)
            clock.advance(by: .seconds(6))
        }
        await #expect(throws: Failure(number: 3)) { try await task.value }
    }

    @Test func aFinalErrorIsThrownAtOnce() async {
        var attempts = 0
        await #expect(throws: Failure(number: 1)) {
            try await retrying(clock: clock) { () throws(Failure) in
                attempts += 1
                throw Failure(number: attempts)
            } pauseAfter: { _ in
                nil
            }
        }
    }

    @Test func cancellationEndsAPauseAndALastAttemptFollows() async {
        let task = Task { [clock] in
            var attempts = 0
            try await retrying(clock: clock) { () throws(Failure) in
                attempts += 1
                throw Failure(number: attempts)
            } pauseAfter: { _ in
                .seconds(5)
            }
        }
        await clock.waitForSleepers(1)
        task.cancel()
        await #expect(throws: Failure(number: 2)) { try await task.value }
    }

    @Test func theLastAttemptMaySucceed() async throws {
        let task = Task { [clock] in
            var attempts = 0
            return try await retrying(clock: clock) { () throws(Failure) in
                attempts += 1
                if attempts == 1 { throw Failure(number: attempts) }
                return attempts
            } pauseAfter: { _ in
                .seconds(5)
            }
        }
        await clock.waitForSleepers(1)
        task.cancel()
        #expect(try await task.value == 2)
    }

    @Test func cancellationIsThrownInPlaceOfTheNextAttempt() async {
        let (attempts, ends) = AsyncStream.makeStream(of: Void.self)
        let task = Task { [clock] in
            defer { ends.finish() }
            try await retrying(cancellation: CancellationError(), clock: clock) {
                ends.yield()
                throw Failure(number: 0)
            } pauseAfter: { _ in
                .seconds(5)
            }
        }
        await clock.waitForSleepers(1)
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(await attempts.reduce(0) { count, _ in count + 1 } == 1)
    }

    /// A task that was cancelled before makes one attempt; a final error of it comes before the cancellation.
    @Test func aCancelledTaskMakesOneAttempt() async {
        @Sendable func attempt(throwing cancellation: (any Error)?, pause: Duration?) async throws {
            while !Task.isCancelled { await Task.yield() }
            var attempts = 0
            try await retrying(cancellation: cancellation, clock: clock) {
                attempts += 1
                throw Failure(number: attempts)
            } pauseAfter: { _ in
                pause
            }
        }
        for (cancellation, pause) in [(nil, .seconds(5)), (CancellationError(), nil)] as [((any Error)?, Duration?)] {
            let task = Task { try await attempt(throwing: cancellation, pause: pause) }
            task.cancel()
            await #expect(throws: Failure(number: 1)) { try await task.value }
        }
        let task = Task { try await attempt(throwing: CancellationError(), pause: .seconds(5)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
