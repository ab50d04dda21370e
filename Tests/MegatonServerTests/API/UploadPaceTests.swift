import Testing

@testable import MegatonServer

/// The time that an upload may take.
@Suite struct UploadPaceTests {
    @Test func anUploadHasAGracePeriod() {
        var pace = UploadPace(grace: .seconds(30), bytesPerSecond: 1024)
        pace.add(1, within: .seconds(30))
        #expect(pace.timeLeft >= .zero)
        pace.add(1, within: .milliseconds(1))
        #expect(pace.timeLeft < .zero)
    }

    @Test func bytesThatHaveComeBuyTime() {
        var pace = UploadPace(grace: .seconds(30), bytesPerSecond: 1024)
        pace.add(64 * 1024, within: .zero)
        // A pause in the middle of a body.
        pace.add(1, within: .seconds(90))
        #expect(pace.timeLeft >= .zero)
        pace.add(1, within: .seconds(5))
        #expect(pace.timeLeft < .zero)
    }

    @Test func anUploadAtTheRateGoesOn() {
        var pace = UploadPace()
        for _ in 0..<1_000 { pace.add(1024, within: .seconds(1)) }
        #expect(pace.timeLeft >= .zero)
        for _ in 0..<63 { pace.add(512, within: .seconds(1)) }
        #expect(pace.timeLeft < .zero, "31.5 seconds more than its bytes allow")
    }
}
