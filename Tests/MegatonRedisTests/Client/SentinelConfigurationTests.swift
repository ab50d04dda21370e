import Testing

@testable import MegatonRedis

@Suite struct SentinelConfigurationTests {
    private typealias Sentinel = RedisConfiguration.Sentinel

    private static func sentinel(_ hosts: [(String, Int)], _ name: String) -> Sentinel {
        Sentinel(hosts: hosts.map { Sentinel.Host(host: $0.0, port: $0.1) }, name: name)
    }

    @Test(arguments: [
        ("redis-sentinel://a/m", [("a", 26_379)], "m"),
        (
            "REDIS-SENTINEL://a:1,b.example.org,[::1]:2,[fe80::1]/my-master",
            [("a", 1), ("b.example.org", 26_379), ("::1", 2), ("fe80::1", 26_379)], "my-master"
        ),
        ("redis-sentinel://10.0.0.1:5000,10.0.0.2:5001/a%20b?db=0", [("10.0.0.1", 5000), ("10.0.0.2", 5001)], "a b"),
    ])
    func readsHostsAndName(_ url: String, _ hosts: [(String, Int)], _ name: String) throws {
        let configuration = try RedisConfiguration(url: url)
        #expect(configuration.address == .sentinel(Self.sentinel(hosts, name)))
        #expect(configuration.username == nil && configuration.password == nil && configuration.database == 0)
        #expect(configuration.requiresMaster && !configuration.usesTLS)
    }

    @Test func readsBothPasswords() throws {
        let text = "redis-sentinel://ann:s%40c%2Cret@a,b/m?db=3&sentinel-username=bob&sentinel-password=p%26w"
        let configuration = try RedisConfiguration(url: text)
        var sentinel = Self.sentinel([("a", 26_379), ("b", 26_379)], "m")
        (sentinel.username, sentinel.password) = ("bob", "p&w")
        #expect(configuration.address == .sentinel(sentinel))
        #expect(configuration.username == "ann" && configuration.password == "s@c,ret" && configuration.database == 3)
        #expect(try RedisConfiguration(url: "redis-sentinel://:pw@a/m").password == "pw")
    }

    @Test func readsTLSWithItsFilesAndBothUsers() throws {
        let text =
            "rediss-sentinel://ann:pw@a/m?ca=/ca.pem&cert=/c.pem&key=/k.pem&sentinel-username=bob&"
            + "sentinel-password=watch"
        let configuration = try RedisConfiguration(url: text)
        #expect(configuration.usesTLS && configuration.certificateAuthority == "/ca.pem")
        #expect(configuration.clientCertificate == "/c.pem" && configuration.clientKey == "/k.pem")
        #expect(configuration.username == "ann" && configuration.password == "pw")
        var sentinel = Self.sentinel([("a", 26_379)], "m")
        (sentinel.username, sentinel.password) = ("bob", "watch")
        #expect(configuration.address == .sentinel(sentinel))
        #expect("\(configuration)" == "rediss-sentinel://a:26379/m")
    }

    @Test(arguments: [
        "redis-sentinel:", "redis-sentinel://", "redis-sentinel:///m", "redis-sentinel://a", "redis-sentinel://a/",
        "redis-sentinel://a/m/0", "redis-sentinel://a,/m", "redis-sentinel://,a/m", "redis-sentinel://a,,b/m",
        "redis-sentinel://a:/m", "redis-sentinel://a:x/m", "redis-sentinel://a:0/m", "redis-sentinel://a:65536/m",
        "redis-sentinel://::1/m", "redis-sentinel://[::1/m", "redis-sentinel://[]:1/m", "redis-sentinel://a b/m",
        "redis-sentinel://a/m?db=x", "redis-sentinel://a/m?db=-1", "redis-sentinel://a/m?what=1",
        "redis-sentinel://a/m#f", "redis-sentinel://a/m?sentinel-username=u",
        "redis-sentinel://a/m?ca=/ca.pem", "rediss-sentinel://a/m?cert=/c.pem", "rediss-sentinel://a/m?what=1",
        "redis-sentinel://u:hush/hush@a/m", "redis-sentinel://u:hush?hush@a/m", "redis-sentinel://u:1/hush@a/m",
        "redis-sentinel://:hush@a:x/m", "redis-sentinel://:hush@a/m?sentinel-passwort=hush",
    ])
    func refusesWhatIsNoneWithoutAPasswordInTheMessage(_ url: String) {
        #expect {
            try RedisConfiguration(url: url)
        } throws: { error in
            let error = error as? RedisError
            return error?.code == .invalidConfiguration && error?.message.contains("hush") == false
        }
    }

    @Test(arguments: [
        ("redis-sentinel://u:hush@a:1,[::1]/m?sentinel-password=hush", "redis-sentinel://a:1,[::1]:26379/m"),
        ("redis-sentinel://:hush@a/m?db=2", "redis-sentinel://a:26379/m?db=2"),
    ])
    func describesItselfWithoutThePasswords(_ url: String, _ description: String) throws {
        let configuration = try RedisConfiguration(url: url)
        #expect("\(configuration)" == description)
        #expect(!"\(configuration.address)".contains("hush"))
    }
}
