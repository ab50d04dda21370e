import MegatonCore
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct RepeatingTests {
    private let clock = ManualClock()

    private final class Counter: Sendable {
        private let state = Mutex(0)
        var value: Int { state.withLock { $0 } }
        func add() { state.withLock { $0 += 1 } }
    }

    @Test func theIntervalCountsFromTheEndOfARound() async {
        let rounds = Counter()
        let task = Task { [clock] in
            await every(.seconds(10), clock: clock) {
                rounds.add()
                clock.advance(by: .seconds(3))
            }
        }
        for round in 1...3 {
            #expect(await clock.sleeper() == .seconds(10))
            #expect(rounds.value == round)
            clock.advance(by: .seconds(9))
            #expect(clock.sleepers == 1)
            clock.advance(by: .seconds(1))
        }
        task.cancel()
        await task.value
    }

    @Test func theFirstRoundMayComeAfterAnInterval() async {
        let rounds = Counter()
        let task = Task { [clock] in
            await every(.seconds(10), startsAtOnce: false, clock: clock) { rounds.add() }
        }
        #expect(await clock.sleeper() == .seconds(10))
        #expect(rounds.value == 0)
        clock.advance(by: .seconds(10))
        await clock.waitForSleepers(1)
        #expect(rounds.value == 1)
        task.cancel()
        await task.value
        #expect(rounds.value == 1)
    }

    @Test(arguments: [false, true])
    func cancellationEndsAPauseWithOrWithoutALastRound(_ endsWithRound: Bool) async {
        let rounds = Counter()
        let task = Task { [clock] in
            await every(.seconds(10), endsWithRound: endsWithRound, clock: clock) { rounds.add() }
        }
        await clock.waitForSleepers(1)
        task.cancel()
        await task.value
        #expect(rounds.value == (endsWithRound ? 2 : 1))
    }

    @Test(arguments: [false, true], [false, true])
    func aCancelledTaskRunsNoRound(_ startsAtOnce: Bool, _ endsWithRound: Bool) async {
        let rounds = Counter()
        let task = Task { [clock] in
            while !Task.isCancelled { await Task.yield() }
            await every(
                .seconds(10),
                startsAtOnce: startsAtOnce,
                endsWithRound: endsWithRound,
                clock: clock
            ) { rounds.add() }
        }
        task.cancel()
        await task.value
        #expect(rounds.value == 0)
    }

    @Test(arguments: [false, true])
    func aRunningRoundIsTheLastAndIsNotInterrupted(_ endsWithRound: Bool) async {
        let (rounds, started, isCancelled) = (Counter(), Promise<Void>(), Promise<Void>())
        let task = Task { [clock] in
            await every(.seconds(10), endsWithRound: endsWithRound, clock: clock) {
                started.resolve(())
                await isCancelled.value
                if Task.isCancelled { rounds.add() }
            }
        }
        await started.value
        task.cancel()
        isCancelled.resolve(())
        await task.value
        #expect(rounds.value == 1)
    }

    @Test func aRoundReturnsThePauseBeforeTheNextOrEndsTheLoop() async {
        let rounds = Counter()
        let task = Task { [clock] in
            var pauses: [Duration] = [.zero, .seconds(5), .seconds(2)]
            await repeating(after: .seconds(1), clock: clock) {
                rounds.add()
                return pauses.isEmpty ? nil : pauses.removeFirst()
            }
        }
        for (pause, count) in [(Duration.seconds(1), 0), (.seconds(5), 2), (.seconds(2), 3)] {
            #expect(await clock.sleeper() == pause)
            #expect(rounds.value == count)
            clock.advance(by: pause)
        }
        await task.value
        #expect(rounds.value == 4)
    }
}

@Suite(.timeLimit(.minutes(1))) struct SignalServiceTests {
    private struct Failure: Error {}

    /// An event of the loop under test.
    private enum Event: Equatable { case work, done }

    private let clock = ManualClock()
    private let signal = AsyncSignal()

    /// Serves the signal, and fails in the rounds with these numbers.
    private func serve(failing: Set<Int>) -> (Task<Void, Never>, AsyncStream<Event>) {
        let (events, log) = AsyncStream.makeStream(of: Event.self)
        let task = Task { [clock, signal] in
            var number = 0
            await signal.serve(clock: clock) {
                number += 1
                log.yield(.work)
                if failing.contains(number) { throw Failure() }
            } pauseAfter: { error in
                error is Failure ? .seconds(5) : .zero
            } done: {
                log.yield(.done)
            }
            log.finish()
        }
        return (task, events)
    }

    @Test func eachSignalIsServedOnce() async {
        let (task, stream) = serve(failing: [])
        var events = stream.makeAsyncIterator()
        for _ in 0..<3 {
            signal.signal()
            #expect(await events.next() == .work)
            #expect(await events.next() == .done)
        }
        task.cancel()
        #expect(await events.next() == nil, "no work follows the cancellation")
    }

    @Test func aFailurePausesBeforeItIsDone() async {
        let (task, stream) = serve(failing: [1])
        var events = stream.makeAsyncIterator()
        signal.signal()
        #expect(await events.next() == .work)
        #expect(await clock.sleeper() == .seconds(5))
        signal.signal()
        clock.advance(by: .seconds(5))
        for event in [Event.done, .work, .done] { #expect(await events.next() == event) }
        task.cancel()
        #expect(await events.next() == nil)
    }

    @Test func cancellationEndsAPauseAndTheLoop() async {
        let (task, stream) = serve(failing: [1])
        var events = stream.makeAsyncIterator()
        signal.signal()
        #expect(await events.next() == .work)
        await clock.waitForSleepers(1)
        signal.signal()
        task.cancel()
        #expect(await events.next() == .done)
        #expect(await events.next() == nil)
    }
}
