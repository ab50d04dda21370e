import Testing

@testable import MegatonServer

/// Listeners and requests that no other machine and no page of another site reaches.
@Suite struct LoopbackRuleTests {
    @Test(arguments: [
        "127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "localhost", "LocalHost", "::ffff:127.0.0.1",
        "::ffff:7f00:1",
    ])
    func theseAreLoopback(_ host: String) {
        #expect(LoopbackRule.isLoopback(host))
    }

    @Test(arguments: [
        "0.0.0.0", "::", "", "128.0.0.1", "10.0.0.1", "::2", "::ffff:10.0.0.1", "::127.0.0.1", "localhost.example.com",
        "127.0.0.1.example.com", "127.1", "2130706433", "127.0.0.1\0", "[::1]", "localhost.", "ip6-localhost", "host",
    ])
    func theseAreNot(_ host: String) {
        #expect(!LoopbackRule.isLoopback(host))
    }

    /// `Host`, `Origin`, and whether the request is of this machine.
    private static let requests: [(String?, String?, Bool)] = [
        (nil, nil, true), ("127.0.0.1:8090", nil, true), ("localhost", nil, true), ("[::1]:8090", nil, true),
        ("localhost:8090", "http://localhost:8090", true), ("LOCALHOST:8090", "http://localhost:8090", true),
        ("rebound.example.com:8090", nil, false), ("rebound.example.com", "http://rebound.example.com", false),
        ("localhost:8090", "https://example.com", false), ("localhost:8090", "http://localhost:3000", false),
        ("localhost:8090", "null", false), (nil, "http://localhost:8090", false), ("192.0.2.1:8090", nil, false),
        ("", nil, false),
    ]

    @Test(arguments: requests) func pagesOfOtherSitesAreFound(_ host: String?, _ origin: String?, _ isLocal: Bool) {
        #expect(LoopbackRule.isLocal(authority: host, origin: origin) == isLocal)
    }
}
