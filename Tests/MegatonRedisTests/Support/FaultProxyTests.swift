import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@Suite(.timeLimit(.minutes(2))) struct FaultProxyTests {
    /// A running command; its value is the error code of its failure.
    private typealias Command = Task<RedisError.Code?, Never>

    private func run(_ body: (RedisServerProcess, FaultProxy) async throws -> Void) async throws {
        try await RedisServerProcess.run { server in
            try await FaultProxy.run(to: .unix(path: server.socket)) { proxy in
                try await body(server, proxy)
            }
        }
    }

    private func client(_ proxy: FaultProxy) throws -> RedisClient {
        RedisClient(
            try RedisConfiguration(url: proxy.url),
            role: "proxied",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// The error code of a failure; nil on success.
    private func failure(_ body: () async throws -> Void) async -> RedisError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? RedisError)?.code
        }
    }

    /// Polls the server directly every 10 ms until a condition on its CLIENT LIST holds.
    private func wait(
        _ server: RedisServerProcess,
        until condition: (_ list: String, _ direct: RedisClient) async throws -> Bool
    ) async throws {
        let direct = server.client("direct")
        defer { direct.close() }
        for _ in 0..<2000 {
            let list = try await direct.send(["CLIENT", "LIST"]).string ?? ""
            if try await condition(list, direct) { return }
            // Blocks for 10 ms, as a pause.
            try await direct.send(["XREAD", "BLOCK", "10", "STREAMS", "pause", "$"])
        }
        Issue.record("The condition did not come about in 20 s.")
    }

    /// A command that blocks at the server while a fault is injected. It ends with its connection.
    private func blocked(_ client: RedisClient, at server: RedisServerProcess) async throws -> Command {
        // Unstructured, so that the test can act meanwhile; the test awaits it.
        let task = Task {
            await failure { try await client.send(["BLPOP", "nothing", "0"], timeout: .seconds(60)) }
        }
        try await wait(server) { list, _ in list.contains("cmd=blpop") }
        return task
    }

    @Test func passesBytesUnchanged() async throws {
        try await run { _, proxy in
            let client = try client(proxy)
            defer { client.close() }
            let value = ByteBuffer(bytes: (0..<1 << 20).map { UInt8(truncatingIfNeeded: ($0 &* 31) ^ ($0 >> 8)) })
            try await client.send(["SET", "k", .buffer(value)])
            #expect(try await client.send(["GET", "k"]).buffer == value)
            await proxy.waitForConnections(1)
            #expect(proxy.connections == 1)
        }
    }

    @Test func passesMoreThanItHoldsThroughAHoleThatIsHealed() async throws {
        try await run { server, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await client.send(["PING"])
            proxy.blackHole(true)
            let value = ByteBuffer(repeating: 7, count: 5_000_000)
            async let reply = client.send(["SET", "k", .buffer(value)], timeout: .seconds(60))
            try await wait(server) { _, direct in
                // A tenth of a second, in which the proxy fills up.
                try await direct.send(["INCR", "rounds"]).int ?? 0 > 10
            }
            proxy.blackHole(false)
            let answer = try await reply
            #expect(answer == .status("OK"))
            #expect(try await client.send(["STRLEN", "k"]).int == 5_000_000)
        }
    }

    @Test func delays() async throws {
        try await run { _, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await client.send(["PING"])
            proxy.setLatency(.milliseconds(100))
            let start = ContinuousClock.now
            let replies = try await client.pipeline((0..<100).map { number -> RedisCommand in ["ECHO", .int(number)] })
            #expect(ContinuousClock.now - start >= .milliseconds(200))
            #expect(replies.map(\.int) == Array(0..<100))
        }
    }

    @Test func narrows() async throws {
        try await run { _, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await client.send(["PING"])
            proxy.setBandwidth(bytesPerSecond: 1_000_000)
            let start = ContinuousClock.now
            let value = ByteBuffer(repeating: 1, count: 500_000)
            try await client.send(["SET", "k", .buffer(value)], timeout: .seconds(60))
            #expect(ContinuousClock.now - start >= .milliseconds(400))
            proxy.setBandwidth(bytesPerSecond: nil)
            #expect(try await client.send(["STRLEN", "k"]).int == 500_000)
        }
    }

    @Test(arguments: [true, false]) func cuts(reset: Bool) async throws {
        try await run { server, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await client.send(["SET", "k", "v"])
            let command = try await blocked(client, at: server)
            proxy.cut(reset: reset)
            #expect(await command.value == .connectionClosed)
            #expect(try await client.send(["GET", "k"]).string == "v")
            try await wait(server) { list, _ in !list.contains("cmd=blpop") }
        }
    }

    @Test func tearsAReply() async throws {
        try await run { _, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await client.send(["SET", "k", .buffer(ByteBuffer(repeating: 1, count: 100_000))])
            let before = try await client.send(["CLIENT", "ID"]).int
            proxy.cut(afterBytes: 50_000)
            #expect(await failure { try await client.send(["GET", "k"]) } == .connectionClosed)
            #expect(try await client.send(["GET", "k"]).buffer?.readableBytes == 100_000)
            #expect(try await client.send(["CLIENT", "ID"]).int != before)
        }
    }

    @Test func swallows() async throws {
        try await run { server, proxy in
            let client = try client(proxy)
            defer { client.close() }
            let before = try await client.send(["CLIENT", "ID"]).int ?? -1
            proxy.blackHole(true)
            let code = await failure { try await client.send(["SET", "late", "1"], timeout: .milliseconds(300)) }
            #expect(code == .timeout)
            // The client has closed its connection, but the server is not notified.
            try await wait(server) { list, _ in proxy.connections == 0 && list.contains("id=\(before) ") }
            proxy.blackHole(false)
            // Held bytes are delivered although no caller waits for them any more; so is the end of the connection.
            try await wait(server) { list, direct in
                let late = try await direct.send(["GET", "late"]).string
                return late == "1" && !list.contains("id=\(before) ")
            }
            #expect(try await client.send(["CLIENT", "ID"]).int != before)
        }
    }

    @Test func splitsByTheClientsAddress() async throws {
        try await run { server, proxy in
            let (client, direct) = (try client(proxy), server.client("direct"))
            defer {
                client.close()
                direct.close()
            }
            try await client.send(["SET", "k", "1"])
            proxy.split(from: "127.0.0.2")
            #expect(try await client.send(["INCR", "k"]).int == 2)
            proxy.split(from: "127.0.0.1")
            let code = await failure { try await client.send(["INCR", "k"], timeout: .milliseconds(300)) }
            #expect(code == .timeout)
            #expect(try await direct.send(["GET", "k"]).int == 2)
            proxy.split(from: nil)
            // The client has disconnected since; its address was stored.
            try await wait(server) { _, _ in try await direct.send(["GET", "k"]).int == 3 }
            #expect(try await client.send(["INCR", "k"]).int == 4)
        }
    }

    @Test func leavesGhosts() async throws {
        try await run { server, proxy in
            let client = try client(proxy)
            defer { client.close() }
            let before = try await client.send(["CLIENT", "ID"]).int ?? -1
            let command = try await blocked(client, at: server)
            proxy.halfOpen()
            #expect(await command.value == .connectionClosed)
            let after = try await client.send(["CLIENT", "ID"]).int ?? -1
            #expect(after != before)
            let list = try await client.send(["CLIENT", "LIST"]).string ?? ""
            #expect(list.contains("id=\(before) ") && list.contains("id=\(after) "))
            proxy.endGhosts()
            try await wait(server) { list, _ in !list.contains("id=\(before) ") }
            #expect(try await client.send(["CLIENT", "ID"]).int == after)
        }
    }

    @Test func refuses() async throws {
        try await run { _, proxy in
            let client = try client(proxy)
            defer { client.close() }
            try await proxy.refuse(true)
            #expect(await failure { try await client.connect() } == .unreachable)
            try await proxy.refuse(false)
            #expect(try await client.send(["PING"]) == .status("PONG"))
        }
    }
}
