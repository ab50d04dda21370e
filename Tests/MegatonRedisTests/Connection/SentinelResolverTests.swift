import Logging
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonRedis

@Suite(.timeLimit(.minutes(2))) struct SentinelResolverTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()

    private func client(_ configuration: RedisConfiguration) -> RedisClient {
        RedisClient(
            configuration,
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private func resolver(_ ports: [Int], name: String = "mymaster") -> SentinelResolver {
        let hosts = ports.map { RedisConfiguration.Sentinel.Host(host: "127.0.0.1", port: $0) }
        let sentinel = RedisConfiguration.Sentinel(hosts: hosts, name: name)
        return SentinelResolver(sentinel, for: RedisConfiguration(address: .sentinel(sentinel)))
    }

    /// Runs a Redis with a port, and a sentinel that has been seen to answer for it.
    private func withMaster(
        settings: [String] = [],
        query: String = "",
        _ body: (_ port: Int, _ sentinel: SentinelProcess) async throws -> Void
    ) async throws {
        let port = try FreePort.find()
        try await RedisServerProcess.run(.init(port: port)) { _ in
            let sentinel = try SentinelProcess(masterPort: port, settings: settings)
            let url = "redis-sentinel://127.0.0.1:\(sentinel.port)/mymaster\(query)"
            let client = client(try RedisConfiguration(url: url))
            defer { client.close() }
            // The client retries until the sentinel listens.
            let answer = try await client.send(["CONFIG", "GET", "port"], timeout: .seconds(20))
            #expect(answer.dictionary["port"] == String(port))
            try await body(port, sentinel)
            await sentinel.stop()
        }
    }

    @Test func asksTheNextWhereOneIsDeadAndBeginsWithItTheNextTime() async throws {
        try await withMaster { port, sentinel in
            let dead = try FreePort.find()
            let resolver = resolver([dead, sentinel.port])
            #expect(resolver.order.map(\.port) == [dead, sentinel.port])
            let endpoint = try await resolver.resolve(on: loop)
            #expect(endpoint == .tcp(host: "127.0.0.1", port: port))
            #expect(resolver.order.map(\.port) == [sentinel.port, dead])
            resolver.doubtLastAnswer()
            #expect(resolver.order.map(\.port) == [dead, sentinel.port])
        }
    }

    @Test func asksTheNextWhereOneIsMute() async throws {
        try await withMaster { port, sentinel in
            let mute = try await ServerBootstrap(group: loop).bind(host: "127.0.0.1", port: 0).get()
            defer { mute.close(promise: nil) }
            let mutePort = try #require(mute.localAddress?.port)
            let url = "redis-sentinel://127.0.0.1:\(mutePort),127.0.0.1:\(sentinel.port)/mymaster"
            let client = client(try RedisConfiguration(url: url))
            defer { client.close() }
            let answer = try await client.send(["CONFIG", "GET", "port"], timeout: .seconds(20))
            #expect(answer.dictionary["port"] == String(port))
        }
    }

    @Test func namesTheSentinelsAskedForAnUnknownName() async throws {
        try await withMaster { _, sentinel in
            let client = client(try RedisConfiguration(url: "redis-sentinel://127.0.0.1:\(sentinel.port)/nowhere"))
            defer { client.close() }
            await #expect {
                try await client.connect()
            } throws: { error in
                guard let error = error as? RedisError else { return false }
                return error.code == .unreachable && error.message.contains("\"nowhere\"")
                    && error.message.contains("127.0.0.1:\(sentinel.port) (does not know this name)")
            }
        }
    }

    @Test func namesTheSentinelsThatDidNotAnswer() async throws {
        let ports = [try FreePort.find(), try FreePort.find()]
        let resolver = resolver(ports)
        await #expect {
            try await resolver.resolve(on: loop)
        } throws: { error in
            guard let error = error as? RedisError else { return false }
            return error.code == .unreachable && ports.allSatisfy { error.message.contains("127.0.0.1:\($0) (") }
        }
    }

    @Test func authenticatesWithTheSentinels() async throws {
        try await withMaster(settings: ["requirepass hush"], query: "?sentinel-password=hush") { _, sentinel in
            for query in ["", "?sentinel-password=wrong"] {
                let url = "redis-sentinel://127.0.0.1:\(sentinel.port)/mymaster\(query)"
                let client = client(try RedisConfiguration(url: url))
                defer { client.close() }
                await #expect { try await client.connect() } throws: { ($0 as? RedisError)?.code == .authentication }
            }
        }
    }

    @Test func followsAFailover() async throws {
        try await withMaster { oldPort, sentinel in
            let newPort = try FreePort.find()
            try await RedisServerProcess.run(.init(port: newPort)) { _ in
                let url = "redis-sentinel://127.0.0.1:\(sentinel.port)/mymaster"
                let client = client(try RedisConfiguration(url: url))
                defer { client.close() }
                try await client.send(["SET", "k", "old"], timeout: .seconds(20))

                // The effects of a failover: the sentinel announces another address, and the old master becomes a
                // replica.
                var toSentinel = RedisConfiguration(address: .tcp(host: "127.0.0.1", port: sentinel.port))
                toSentinel.requiresMaster = false
                let control = self.client(toSentinel)
                defer { control.close() }
                try await control.send(["SENTINEL", "REMOVE", "mymaster"])
                try await client.send(["REPLICAOF", "127.0.0.1", .int(newPort)])
                try await control.send(["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", .int(newPort), "1"])

                await #expect { try await client.send(["SET", "k", "new"]) } throws: {
                    ($0 as? RedisError)?.code == .notWritable
                }
                try await client.send(["SET", "k", "new"], timeout: .seconds(20))
                let answer = try await client.send(["CONFIG", "GET", "port"])
                #expect(answer.dictionary["port"] == String(newPort) && newPort != oldPort)
            }
        }
    }
}
