import Testing

@testable import MegatonRedis

@Suite struct ClusterConfigurationTests {
    private typealias Host = RedisConfiguration.Sentinel.Host

    @Test func readsNodesAndUser() throws {
        let plain = try RedisConfiguration(url: "redis+cluster://a,b:7001,[::1]:7002")
        #expect(
            plain.address
                == .cluster([Host(host: "a", port: 6379), Host(host: "b", port: 7001), Host(host: "::1", port: 7002)])
        )
        #expect(!plain.usesTLS && plain.username == nil && plain.password == nil && plain.database == 0)
        let full = try RedisConfiguration(url: "REDISS+cluster://ann:s%40cret@a/0?ca=/ca.pem&cert=/c.pem&key=/k.pem")
        #expect(full.usesTLS && full.username == "ann" && full.password == "s@cret")
        #expect(full.certificateAuthority == "/ca.pem" && full.clientKey == "/k.pem")
        #expect("\(full)" == "rediss+cluster://a:6379")
    }

    @Test(arguments: [
        "redis+cluster://", "redis+cluster://a,,b", "redis+cluster://a:x", "redis+cluster://a/1", "redis+cluster://a/x",
        "redis+cluster://a?db=1", "redis+cluster://a?ca=/ca.pem", "rediss+cluster://a?cert=/c.pem",
        "redis+cluster://a#f",
        "redis+cluster://u:hush/hush@a", "redis+cluster://:hush@a:x",
    ])
    func refusesWhatIsNoneWithoutAPasswordInTheMessage(_ url: String) {
        #expect {
            try RedisConfiguration(url: url)
        } throws: { error in
            let error = error as? RedisError
            return error?.code == .invalidConfiguration && error?.message.contains("hush") == false
        }
    }
}
