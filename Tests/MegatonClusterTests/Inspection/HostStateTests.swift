import Testing

@testable import MegatonCluster

/// The numbers of a host as the fleet stores them.
@Suite struct HostStateTests {
    @Test func aHostIsLimitedOrOpenByItsNumbers() throws {
        let state = try #require(HostState("example.org", stored: "1 0 0.5 2000 3 4000", now: 1000))
        #expect(state.factor == 0.5 && state.blockedFor == 1 && state.failures == 3 && state.openFor == 3)
        #expect(state.isLimited && state.isOpen)
        let calm = try #require(HostState("example.org", stored: "1 0 1 0 0 0", now: 1000))
        #expect(!calm.isLimited && !calm.isOpen)
    }

    /// A probe of a host that does not answer takes longer than the first open times.
    @Test func aHostThatIsProbedIsOpen() throws {
        let probed = try #require(HostState("example.org", stored: "1 500 1 0 9 4000", now: 14_000))
        #expect(probed.isOpen && probed.isProbed && probed.openFor == 0)
        // No job has asked for it since, or the probe has succeeded.
        for text in ["1 500 1 0 9 4000", "1 0 1 0 0 0"] {
            let state = try #require(HostState("example.org", stored: text, now: 100_000))
            #expect(!state.isOpen && !state.isProbed, "\(text)")
        }
    }

    /// Another program may write any text; a number that does not fit must not end the process.
    @Test(arguments: [
        "", "a", "1 0 1 0 0", "1 0 1 0 1e300 0", "1 0 1 0 -inf 0", "1 0 1 0 nan 0", "1 0 nan 0 0 0", "1 0 1 inf 0 0",
        "1 0 1 0 0 inf",
    ]) func anotherTextIsNoState(_ text: String) {
        #expect(HostState("example.org", stored: text, now: 1000) == nil)
    }
}
