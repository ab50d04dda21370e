import MegatonCore
import Testing

@Suite(.timeLimit(.minutes(1))) struct TimeLimitTests {
    private let clock = ManualClock()

    @Test func aValueInTimeIsReturned() async {
        #expect(await TimeLimit.wait(atMost: .seconds(5), clock: clock) { 3 } == 3)
        #expect(clock.sleepers == 0, "the value ends the timer")
    }

    @Test func theBodyIsCancelledAtTheLimitAndWaitedFor() async {
        let ended = Promise<Bool>()
        let task = Task { [clock] in
            await TimeLimit.wait(atMost: .seconds(5), clock: clock) {
                await AsyncSignal().wait()
                ended.resolve(Task.isCancelled)
                return 3
            }
        }
        #expect(await clock.sleeper() == .seconds(5))
        clock.advance(by: .seconds(5))
        #expect(await task.value == nil)
        #expect(await ended.value)
    }

    @Test func cancellationEndsTheWait() async {
        let task = Task { [clock] in
            await TimeLimit.wait(atMost: .seconds(5), clock: clock) { () -> Int? in
                await AsyncSignal().wait()
                return nil
            }
        }
        await clock.waitForSleepers(1)
        task.cancel()
        #expect(await task.value == nil)
    }
}
