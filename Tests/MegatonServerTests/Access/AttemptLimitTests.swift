import MegatonCore
import Testing

@testable import MegatonServer

/// The limit on failed attempts to use a token.
@Suite struct AttemptLimitTests {
    private let clock = SteppedClock()

    private func limit(capacity: Int = 10_000) -> AttemptLimit {
        AttemptLimit(capacity: capacity, time: TimeSource(clock))
    }

    private func fail(_ limit: AttemptLimit, _ address: String?, times: Int = AttemptLimit.maximumFailures) {
        for _ in 0..<times { limit.fail(AttemptLimit.Client(address)) }
    }

    @Test func tenFailuresAMinuteAreAllowed() {
        let limit = self.limit()
        let client = AttemptLimit.Client("192.0.2.1")
        fail(limit, "192.0.2.1", times: 9)
        #expect(limit.delay(of: client) == nil)
        clock.advance(by: .seconds(20))
        fail(limit, "192.0.2.1", times: 1)
        #expect(limit.delay(of: client) == .seconds(40))
        clock.advance(by: .milliseconds(39_999))
        #expect(limit.delay(of: client) == .milliseconds(1))
        clock.advance(by: .milliseconds(1))
        #expect(limit.delay(of: client) == nil)
        fail(limit, "192.0.2.1", times: 9)
        #expect(limit.delay(of: client) == nil, "the next minute begins with no failures")
        fail(limit, "192.0.2.1", times: 1)
        #expect(limit.delay(of: client) == .seconds(60))
    }

    /// The first address fails; the second one is refused too if it is of the same client.
    @Test(arguments: [
        ("192.0.2.1", "192.0.2.2", false), ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true), ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
    ])
    func clientsAreKnownByTheirNetwork(_ first: String, _ second: String, _ isSame: Bool) {
        let limit = self.limit()
        fail(limit, first)
        #expect((limit.delay(of: AttemptLimit.Client(second)) != nil) == isSame)
        #expect(limit.delay(of: AttemptLimit.Client(nil)) == nil)
    }

    @Test func theOldestClientIsForgottenForANewOne() {
        let limit = self.limit(capacity: 100)
        for number in 0..<100 {
            fail(limit, "192.0.2.\(number)")
            clock.advance(by: .milliseconds(1))
        }
        #expect(limit.count == 100)
        fail(limit, "198.51.100.1")
        #expect(limit.count == 100)
        #expect(limit.delay(of: AttemptLimit.Client("192.0.2.0")) == nil)
        #expect(limit.delay(of: AttemptLimit.Client("192.0.2.1")) != nil)
        #expect(limit.delay(of: AttemptLimit.Client("198.51.100.1")) != nil)
    }

    @Test func aClientIsReportedOnceAMinute() {
        let limit = self.limit()
        let client = AttemptLimit.Client("192.0.2.1")
        #expect(!limit.takeReport(about: client), "it has not failed")
        fail(limit, "192.0.2.1", times: 1)
        #expect(limit.takeReport(about: client))
        fail(limit, "192.0.2.1")
        #expect(!limit.takeReport(about: client))
        fail(limit, "192.0.2.2", times: 1)
        #expect(limit.takeReport(about: AttemptLimit.Client("192.0.2.2")))
        clock.advance(by: .seconds(60))
        fail(limit, "192.0.2.1", times: 1)
        #expect(limit.takeReport(about: client))
    }

    @Test func manyClientsDoNotFillTheLog() {
        let limit = self.limit()
        for minute in 1...2 {
            let reported = (0...AttemptLimit.maximumReports).filter { number in
                fail(limit, "192.0.2.\(number)", times: 1)
                return limit.takeReport(about: AttemptLimit.Client("192.0.2.\(number)"))
            }
            #expect(reported.count == AttemptLimit.maximumReports, "minute \(minute)")
            clock.advance(by: .seconds(60))
        }
    }

    @Test func manyClientsDoNotFillTheMemory() {
        let limit = self.limit()
        for number in 0..<25_000 { fail(limit, "10.0.\(number / 256).\(number % 256)", times: 1) }
        #expect(limit.count == 10_000)
        clock.advance(by: .seconds(60))
        fail(limit, "192.0.2.1", times: 1)
        #expect(limit.count == 1, "those of the last minute are dropped")
    }

    @Test func aClientThatFailsAgainLaterIsNotTheOldest() {
        let limit = self.limit(capacity: 2)
        fail(limit, "192.0.2.1", times: 1)
        clock.advance(by: .seconds(30))
        fail(limit, "192.0.2.2")
        clock.advance(by: .seconds(30))
        fail(limit, "192.0.2.1")
        fail(limit, "192.0.2.3")
        #expect(limit.delay(of: AttemptLimit.Client("192.0.2.2")) == nil)
        #expect(limit.delay(of: AttemptLimit.Client("192.0.2.1")) == .seconds(60))
    }
}
