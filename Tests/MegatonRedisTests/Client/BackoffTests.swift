import MegatonRedis
import Testing

@Suite struct BackoffTests {
    /// The longest of many delays after twenty failures.
    private func longest(after error: (any Error)?) -> Duration {
        var delays: [Duration] = []
        for _ in 0..<200 {
            var backoff = Backoff()
            for _ in 0..<20 { _ = backoff.next(after: error) }
            delays.append(backoff.next(after: error))
        }
        return delays.max() ?? .zero
    }

    @Test func growsUpToItsCap() {
        // The probability that none of 200 exceeds half of the bound is 1 in 10^60.
        #expect(longest(after: nil) > .seconds(1))
        #expect(longest(after: nil) <= .seconds(2))
        #expect(longest(after: RedisError(reply: "OOM command not allowed")) > .seconds(1))
    }

    @Test(arguments: ["BUSY Redis is busy running a script.", "LOADING Redis is loading the dataset in memory"])
    func aServerThatIsBusyIsAskedAgainSoon(_ reply: String) {
        #expect(longest(after: RedisError(reply: reply)) <= .milliseconds(500))
    }

    @Test func beginsShortAgainAfterASuccess() {
        var backoff = Backoff()
        for _ in 0..<20 { _ = backoff.next(after: nil) }
        backoff.reset()
        #expect(backoff.next(after: nil) <= .milliseconds(50))
    }
}
