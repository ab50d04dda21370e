import Testing

@testable import MegatonRedis

@Suite struct RedisConfigurationTests {
    @Test func readsTCP() throws {
        let plain = try RedisConfiguration(url: "redis://example.org")
        #expect(plain.address == .tcp(host: "example.org", port: 6379))
        #expect(!plain.usesTLS && plain.database == 0 && plain.password == nil && plain.username == nil)
        let full = try RedisConfiguration(url: "rediss://ann:s%40cret@[::1]:7000/3?ca=/etc/ca.pem")
        #expect(full.address == .tcp(host: "::1", port: 7000))
        #expect(full.usesTLS && full.database == 3 && full.username == "ann" && full.password == "s@cret")
        #expect(full.certificateAuthority == "/etc/ca.pem")
        #expect(try RedisConfiguration(url: "redis://:pw@h/").password == "pw")
    }

    @Test func readsTheFilesOfTLS() throws {
        let named = try RedisConfiguration(url: "rediss://h?ca=/ca.pem&cert=/c.pem&key=/k.pem")
        #expect(named.clientCertificate == "/c.pem" && named.clientKey == "/k.pem")
        var bare = try RedisConfiguration(url: "rediss://h")
        try bare.addTLSFiles(authority: "/ca.pem", certificate: "/c.pem", key: "/k.pem")
        #expect(bare == named)
        // Those of the URL come first, and a certificate never gets the key of another.
        var other = try RedisConfiguration(url: "rediss://h?cert=/own.pem&key=/own.pem")
        try other.addTLSFiles(authority: "/ca.pem", certificate: "/c.pem", key: "/k.pem")
        #expect(other.clientCertificate == "/own.pem" && other.clientKey == "/own.pem")
        var plain = try RedisConfiguration(url: "redis://h")
        try plain.addTLSFiles(authority: "/ca.pem", certificate: "/c.pem", key: "/k.pem")
        #expect(plain == RedisConfiguration(address: .tcp(host: "h", port: 6379)))
    }

    @Test func readsUnixSockets() throws {
        let socket = try RedisConfiguration(url: "unix:///run/redis.sock?db=2")
        #expect(socket.address == .unix(path: "/run/redis.sock") && socket.database == 2)
    }

    @Test(arguments: [
        "", "redis:", "redis://", "http://h", "unix://", "unix:relative", "redis://h/x", "redis://h/-1",
        "redis://h:0", "redis://h:65536", "redis://h:99999", "rediss://u:p@h:99999999999999999999", "redis://[::1]:0/1",
        "redis://h?ca=/ca.pem", "rediss://h?cert=/c.pem", "rediss://h?key=/k.pem",
    ])
    func refusesWhatIsNone(_ url: String) {
        #expect { try RedisConfiguration(url: url) } throws: { ($0 as? RedisError)?.code == .invalidConfiguration }
    }

    /// Fault: a port above 65535 was that of another server.
    @Test func readsPortsAsTheyAreWritten() throws {
        #expect(try RedisConfiguration(url: "redis://h:65535").address == .tcp(host: "h", port: 65_535))
        #expect(try RedisConfiguration(url: "redis://h:").address == .tcp(host: "h", port: 6379))
        #expect(try RedisConfiguration(url: "redis://u:99999@[::1]/2").address == .tcp(host: "::1", port: 6379))
        #expect { try RedisConfiguration(url: "redis://u:99998@h:99999") } throws: { error in
            "\(error)".contains("99999") && !"\(error)".contains("99998")
        }
    }

    @Test func describesItselfWithoutThePassword() throws {
        #expect("\(try RedisConfiguration(url: "redis://u:secret@h:1/2"))" == "redis://h:1/2")
        #expect("\(try RedisConfiguration(url: "unix://:secret@/s.sock?db=2"))" == "unix:///s.sock?db=2")
    }

    @Test(arguments: [
        ("NOAUTH Authentication required.", RedisError.Code.authentication), ("WRONGPASS x", .authentication),
        ("OOM command not allowed", .outOfMemory), ("LOADING Redis is loading", .busy), ("BUSY script", .busy),
        ("READONLY You can't write", .notWritable), ("NOREPLICAS x", .notWritable), ("NOSCRIPT No", .unknownScript),
        ("MASTERDOWN Link with MASTER is down", .notWritable), ("UNBLOCKED force unblock", .notWritable),
        ("ERR Error running script: -READONLY You can't", .notWritable), ("WRONGTYPE x", .server), ("ERR x", .server),
        ("CROSSSLOT Keys in request don't hash to the same slot", .crossSlot), ("NOPERM x", .authentication),
        ("ERR The user executing the script can't run this command or subcommand", .authentication),
        ("BATCHEXISTS x", .batchExists), ("NOBATCH x", .noBatch), ("OTHERREADER x", .otherReader),
        ("OTHEROWNER x", .otherOwner),
    ])
    func sortsErrorReplies(_ reply: String, _ code: RedisError.Code) {
        #expect(RedisError(reply: reply).code == code)
    }

    @Test(arguments: [
        ("NOPERM this user has no permissions to run the 'info' command", true),
        ("NOPERM User ann has no permissions to run the 'client|setname' command", true),
        ("NOPERM this user has no permissions to access one of the keys used as arguments", false),
        ("NOPERM No permissions to access a key", false), ("WRONGPASS x", false), ("ERR x", false),
        ("ERR unknown command 'CONFIG', with args beginning with: 'GET'", true),
        ("ERR unknown subcommand 'foo'. Try CLIENT HELP.", true),
    ])
    func distinguishesRefusedCommandsFromRefusedKeys(_ reply: String, _ isCommand: Bool) {
        let error = RedisError(reply: reply)
        #expect(error.isCommandRefused == isCommand)
        #expect(error.message.contains("docs/credentials.md") == reply.hasPrefix("NOPERM"))
    }

    @Test(arguments: [
        ("LOADING x", true, false), ("BUSY x", true, false), ("OOM x", true, false), ("READONLY x", true, true),
        ("MASTERDOWN x", true, true), ("UNBLOCKED x", true, true), ("NOREPLICAS x", true, true),
        ("WRONGPASS x", false, false), ("ERR x", false, false),
    ])
    func knowsWhatPassesAndWhatEndsTheConnection(_ reply: String, _ isTransient: Bool, _ endsConnection: Bool) {
        let error = RedisError(reply: reply)
        #expect(error.isTransient == isTransient)
        #expect(error.endsConnection == endsConnection)
    }
}
