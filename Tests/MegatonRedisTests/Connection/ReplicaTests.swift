import Logging
import MegatonTestSupport
import NIOCore
import NIOPosix
import Testing

@testable import MegatonRedis

/// A client's behavior with a server that is not a master, against a real one.
@Suite(.timeLimit(.minutes(2))) struct ReplicaTests {
    private func client(_ configuration: RedisConfiguration) -> RedisClient {
        RedisClient(
            configuration,
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Runs a replica, with a client that accepts it and the port of its master.
    private func withReplica(
        _ body: (_ replica: RedisServerProcess, _ admin: RedisClient, _ masterPort: Int) async throws -> Void
    ) async throws {
        let port = try FreePort.find()
        try await RedisServerProcess.run(.init(port: port)) { _ in
            try await RedisServerProcess.run { replica in
                // Not from its start: the helper that starts a server also requires a master.
                var configuration = replica.configuration
                configuration.requiresMaster = false
                let admin = client(configuration)
                defer { admin.close() }
                try await admin.send(["REPLICAOF", "127.0.0.1", .int(port)])
                try await body(replica, admin, port)
            }
        }
    }

    @Test func refusesAReplicaAndSaysWhat() async throws {
        try await withReplica { replica, admin, masterPort in
            let client = replica.client("refused")
            defer { client.close() }
            await #expect {
                try await client.connect()
            } throws: { error in
                guard let error = error as? RedisError else { return false }
                return error.code == .notWritable && error.message.contains("replica of 127.0.0.1:\(masterPort)")
            }
            // The server notices the end of the connection a little later.
            while try await admin.send(["CLIENT", "LIST"]).string?.contains("megaton:refused") == true {
                await Task.yield()
            }
            // A command waits for the master until its own deadline, and then reports the cause.
            await #expect { try await client.send(["PING"], timeout: .milliseconds(300)) } throws: {
                ($0 as? RedisError)?.code == .notWritable
            }
        }
    }

    @Test func goesOnOnceTheReplicaWasPromoted() async throws {
        try await withReplica { replica, admin, _ in
            let client = replica.client()
            defer { client.close() }
            await #expect(throws: RedisError.self) { try await client.connect() }
            async let written = client.send(["SET", "k", "v"], timeout: .seconds(20))
            try await admin.send(["REPLICAOF", "NO", "ONE"])
            let reply = try await written
            #expect(reply == .status("OK"))
        }
    }

    @Test func acceptsAUserWithoutPermissionForROLE() async throws {
        try await withReplica { replica, admin, _ in
            try await admin.send(["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-role"])
            var configuration = replica.configuration
            configuration.username = "ann"
            configuration.password = "pw"
            let client = client(configuration)
            defer { client.close() }
            let reply = try await client.send(["PING"])
            #expect(reply == .status("PONG"))
        }
    }

    @Test func closesTheConnectionOfABlockingCommandEndedByAFailover() async throws {
        let port = try FreePort.find()
        try await RedisServerProcess.run(.init(port: port)) { _ in
            try await RedisServerProcess.run { server in
                let (blocked, admin) = (server.client("blocked"), server.client("admin"))
                defer {
                    blocked.close()
                    admin.close()
                }
                async let popped = blocked.send(["BLPOP", "nothing", "60"], timeout: .seconds(62))
                while try await admin.send(["INFO", "clients"]).string?.contains("blocked_clients:1") != true {
                    await Task.yield()
                }
                try await admin.send(["REPLICAOF", "127.0.0.1", .int(port)])
                let said: String
                do {
                    said = "\(try await popped)"
                } catch {
                    said = "\(error)"
                }
                #expect(said.contains("UNBLOCKED") && said.hasSuffix("(not_writable)"))
                // The next command finds a replica, on a new connection.
                await #expect { try await blocked.connect() } throws: { ($0 as? RedisError)?.code == .notWritable }
            }
        }
    }

    @Test func waitsForAConnectionNoLongerThanACommandMay() async throws {
        let group = MultiThreadedEventLoopGroup.singleton
        let mute = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        defer { mute.close(promise: nil) }
        let port = try #require(mute.localAddress?.port)
        var configuration = RedisConfiguration(address: .tcp(host: "127.0.0.1", port: port))
        configuration.connectTimeout = .seconds(60)
        let client = client(configuration)
        defer { client.close() }
        let start = ContinuousClock.now
        await #expect { try await client.send(["PING"], timeout: .milliseconds(100)) } throws: {
            ($0 as? RedisError)?.code == .unreachable
        }
        #expect(ContinuousClock.now - start < .seconds(30))
    }
}
