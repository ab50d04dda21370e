import Testing

@testable import MegatonRedis

@Suite struct RedisGreetingTests {
    private func greeting(_ change: (inout RedisConfiguration) -> Void = { _ in }) -> RedisGreeting {
        var configuration = RedisConfiguration(address: .tcp(host: "h", port: 1))
        change(&configuration)
        return RedisGreeting(configuration, name: "megaton:test", place: "redis://h:1")
    }

    private func refusal(_ greeting: RedisGreeting, _ replies: [RedisValue]) -> RedisError? {
        do throws(RedisError) {
            try greeting.check(replies)
            return nil
        } catch {
            return error
        }
    }

    @Test func saysWhatIsNeededAndNoMore() {
        #expect(greeting().commands.map(\.arguments.count) == [3, 1, 1])
        #expect(greeting { $0.requiresMaster = false }.commands.count == 1)
        // A cluster's own client asks its nodes for less.
        #expect(greeting { $0.acceptsClusterNode = true }.commands.count == 2)
        let full = greeting { configuration in
            configuration.username = "ann"
            configuration.password = "pw"
            configuration.database = 2
        }
        #expect(full.commands.map(\.arguments.count) == [3, 2, 3, 1, 1])
    }

    @Test func acceptsAMaster() {
        let role = RedisValue.array([.status("master"), .integer(0), .array([])])
        #expect(refusal(greeting(), [.status("OK"), role]) == nil)
    }

    @Test func refusesWhatIsNoMaster() {
        let replica = RedisValue.array([.status("slave"), .status("10.0.0.1"), .integer(7000), .status("connected")])
        let error = refusal(greeting(), [.status("OK"), replica])
        #expect(error?.code == .notWritable)
        #expect(error?.message.contains("replica of 10.0.0.1:7000") == true)
        #expect(error?.message.contains("redis-sentinel://") == true)
        let sentinel = refusal(greeting(), [.status("OK"), .array([.status("sentinel"), .array([])])])
        #expect(sentinel?.code == .notWritable && sentinel?.message.contains("a sentinel") == true)
    }

    @Test func refusesANodeOfACluster() {
        func hello(_ mode: String) -> [RedisValue] {
            let fields: [RedisValue] = [.status("proto"), .integer(2), .status("mode"), .status(mode)]
            return [.status("OK"), .array([.status("master")]), .array(fields)]
        }
        let error = refusal(greeting(), hello("cluster"))
        #expect(error?.code == .invalidConfiguration && error?.message.contains("redis+cluster://") == true)
        #expect(refusal(greeting(), hello("standalone")) == nil)
        let unknown = RedisValue.error("NOPERM this user has no permissions to run the 'hello' command")
        #expect(refusal(greeting(), [.status("OK"), .array([.status("master")]), unknown]) == nil)
        let unnamed = RedisValue.error("NOPERM this user has no permissions to run the 'client|setname' command")
        #expect(refusal(greeting(), [unnamed, .array([.status("master")])]) == nil)
    }

    @Test(arguments: [
        "NOPERM this user has no permissions to run the 'role' command",
        "ERR unknown command 'ROLE', with args beginning with: ",
    ])
    func letsThroughWhomItCannotAsk(_ reply: String) {
        #expect(refusal(greeting(), [.status("OK"), .error(reply)]) == nil)
    }

    @Test(arguments: [
        ("LOADING Redis is loading the dataset in memory", RedisError.Code.busy),
        ("BUSY Redis is busy running a script", .busy), ("NOAUTH Authentication required.", .authentication),
    ])
    func sortsWhatElseIsAnswered(_ reply: String, _ code: RedisError.Code) {
        #expect(refusal(greeting(), [.status("OK"), .error(reply)])?.code == code)
        #expect(refusal(greeting(), [.error(reply), .status("OK")])?.code == code)
    }

    @Test(arguments: [
        ("WRONGPASS invalid username-password pair", RedisError.Code.authentication),
        ("ERR AUTH <password> called without any password configured", .authentication),
        ("ERR unknown command 'AUTH', with args beginning with: 'hush'", .authentication),
        ("ERR unknown command `AUTH`, with args beginning with: `hush`", .authentication),
        ("LOADING Redis is loading the dataset in memory", .busy),
    ])
    func takesARefusedPasswordForFinal(_ reply: String, _ code: RedisError.Code) {
        let error = refusal(greeting { $0.password = "hush" }, [.error(reply), .status("OK"), .status("OK")])
        #expect(error?.code == code)
        #expect(error?.message.contains("hush") == false)
    }
}
