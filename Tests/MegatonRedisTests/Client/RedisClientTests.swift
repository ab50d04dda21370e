import Foundation
import Logging
import MegatonTestSupport
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import MegatonRedis

@Suite(.timeLimit(.minutes(2))) struct RedisClientTests {
    private func client(_ configuration: RedisConfiguration) -> RedisClient {
        RedisClient(
            configuration,
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test")
        )
    }

    @Test func matchesRepliesOfManyTasks() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<500 {
                    group.addTask {
                        let echo = try await client.send(["ECHO", .int(number)])
                        #expect(echo.int == number)
                    }
                }
                try await group.waitForAll()
            }
            let id = try await client.send(["CLIENT", "LIST"]).string ?? ""
            #expect(id.split(separator: "\n").count { $0.contains("name=megaton:test") } == 1)
        }
    }

    @Test func returnsErrorsOfAPipelineInTheirPlaces() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let replies = try await client.pipeline([["SET", "k", "v"], ["INCR", "k"], ["GET", "k"]])
            #expect(replies[0] == .status("OK"))
            #expect(replies[1] == .error("ERR value is not an integer or out of range"))
            #expect(replies[2].string == "v")
            await #expect { try await client.send(["INCR", "k"]) } throws: { ($0 as? RedisError)?.code == .server }
        }
    }

    @Test func connectWaitsForAServerThatComesLater() async throws {
        try await RedisServerProcess.run { server in
            await server.crash()
            let client = server.client()
            defer { client.close() }
            await #expect { try await client.connect() } throws: { ($0 as? RedisError)?.code == .unreachable }
            async let isConnected: Void = client.connect(waiting: .seconds(60))
            try await server.startAgain()
            try await isConnected
            #expect(try await client.send(["PING"]) == .status("PONG"))
        }
    }

    @Test func connectDoesNotWaitForWhatTimeDoesNotCure() async throws {
        try await RedisServerProcess.run(.init(settings: ["requirepass secret"])) { server in
            var configuration = server.configuration
            configuration.password = "wrong"
            let client = client(configuration)
            defer { client.close() }
            await #expect { try await client.connect(waiting: .seconds(3600)) } throws: {
                ($0 as? RedisError)?.code == .authentication
            }
        }
    }

    @Test func carriesLargeValuesBothWays() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let image = ByteBuffer(bytes: (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 17) })
            try await client.send(["SET", "image", .buffer(image)])
            #expect(try await client.send(["GET", "image"]).buffer == image)
        }
    }

    @Test func reportsAtOnceThatNoServerListens() async throws {
        let client = client(RedisConfiguration(address: .unix(path: "/nowhere/redis.sock")))
        defer { client.close() }
        await #expect { try await client.connect() } throws: { error in
            let error = error as? RedisError
            return error?.code == .unreachable && error?.message.contains("/nowhere/redis.sock") == true
        }
    }

    @Test func authenticates() async throws {
        try await RedisServerProcess.run(.init(settings: ["requirepass open sesame"])) { server in
            var configuration = server.configuration
            let without = client(configuration)
            defer { without.close() }
            let place = "The Redis at \(server.configuration) refused the connection."
            await #expect { try await without.connect() } throws: { error in
                let error = error as? RedisError
                return error?.code == .authentication && error?.message.hasPrefix(place) == true
            }
            configuration.password = "wrong"
            let wrong = client(configuration)
            defer { wrong.close() }
            await #expect { try await wrong.connect() } throws: { error in
                let error = error as? RedisError
                return error?.code == .authentication && error?.message.contains("wrong\"") != true
                    && error?.message.hasPrefix(place) == true
            }
            configuration.password = "open sesame"
            configuration.database = 1
            let right = client(configuration)
            defer { right.close() }
            try await right.send(["SET", "k", "v"])
            #expect(try await right.send(["CLIENT", "LIST"]).string?.contains("db=1") == true)
        }
    }

    @Test(.enabled(if: !RedisPrograms.usesValkey, "Valkey from PyPI has no TLS"))
    func speaksTLS() async throws {
        let directory = try TestDirectory()
        let (certificate, key) = (directory.path + "/cert.pem", directory.path + "/key.pem")
        let openssl = try ProgramUnderTest(
            program: "/usr/bin/openssl",
            arguments: [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
            ]
        )
        let ending = await openssl.ending()
        try #require(ending.code == 0, "\(ending.errors)")
        let port = try FreePort.find()
        let tls = RedisServerProcess.TLS(port: port, certificate: certificate, key: key)
        try await RedisServerProcess.run(.init(settings: ["tls-ca-cert-file \(certificate)"], tls: tls)) { _ in
            let trusted = client(try RedisConfiguration(url: "rediss://localhost:\(port)?ca=\(certificate)"))
            defer { trusted.close() }
            #expect(try await trusted.send(["PING"]) == .status("PONG"))
            let untrusted = client(try RedisConfiguration(url: "rediss://localhost:\(port)"))
            defer { untrusted.close() }
            await #expect(throws: RedisError.self) { try await untrusted.connect() }
        }
    }

    @Test func aClientThatDoesNotWaitForReconnectFailsAtOnceAndRecovers() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = RedisClient(
                server.configuration,
                role: "test",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                waitsForReconnect: false
            )
            defer { client.close() }
            #expect(try await client.send(["PING"]) == .status("PONG"))
            await server.crash()
            // Far more than would be possible if each of them waited for a command's timeout.
            for _ in 0..<500 {
                await #expect(throws: RedisError.self) { try await client.send(["PING"], timeout: .seconds(60)) }
            }
            try await server.startAgain()
            var isBack = false
            while !isBack {
                try Task.checkCancellation()
                do throws(RedisError) {
                    isBack = try await client.send(["PING"]) == .status("PONG")
                } catch {
                    #expect(error.code == .unreachable)
                    await Task.yield()
                }
            }
        }
    }

    /// Timeouts are an hour: the commands can only end within this test because the client fails fast.
    @Test func aFailFastClientDoesNotWaitAndComesBackWithItsServer() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = client(server.configuration)
            defer { client.close() }
            #expect(try await client.send(["PING"]) == .status("PONG"))
            await server.crash()
            await withTaskGroup(of: RedisError.Code?.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        do throws(RedisError) {
                            try await client.send(["PING"], timeout: .seconds(3600))
                            return nil
                        } catch {
                            return error.code
                        }
                    }
                }
                client.failFast()
                for await code in group { #expect(code == .unreachable || code == .connectionClosed) }
            }
            try await server.startAgain()
            // Refused until the client reconnects.
            while (try? await client.send(["PING"])) == nil, !Task.isCancelled { await Task.yield() }
        }
    }

    /// The handshake would take an hour.
    @Test func aFailFastClientWaitsForAHangingServerOnlyOnce() async throws {
        try await RedisServerProcess.run { (server) async throws in
            var configuration = server.configuration
            configuration.connectTimeout = .seconds(3600)
            let client = client(configuration)
            defer { client.close() }
            #expect(try await client.send(["PING"]) == .status("PONG"))
            client.failFast()
            kill(server.pid, SIGSTOP)
            await #expect { try await client.send(["PING"], timeout: .milliseconds(100)) } throws: {
                ($0 as? RedisError)?.code == .timeout
            }
            await #expect { try await client.send(["PING"], timeout: .seconds(3600)) } throws: {
                ($0 as? RedisError)?.code == .unreachable
            }
            kill(server.pid, SIGCONT)
        }
    }

    @Test func comesBackAfterTheServerDid() async throws {
        let directory = try TestDirectory()
        let socket = directory.path + "/s.sock"
        func start() throws -> ProgramUnderTest {
            try ProgramUnderTest(
                program: RedisPrograms.server,
                arguments: ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory.path]
            )
        }
        let first = try start()
        try await directory.waitForFile(named: "s.sock")
        let client = client(RedisConfiguration(address: .unix(path: socket)))
        defer { client.close() }
        #expect(try await client.send(["PING"]) == .status("PONG"))
        first.send(SIGKILL)
        _ = await first.ending()
        await #expect { try await client.send(["PING"], timeout: .milliseconds(200)) } throws: {
            [.connectionClosed, .unreachable].contains(($0 as? RedisError)?.code)
        }
        try? FileManager.default.removeItem(atPath: socket)
        let second = try start()
        try await directory.waitForFile(named: "s.sock")
        #expect(try await client.send(["PING"], timeout: .seconds(20)) == .status("PONG"))
        second.send(SIGKILL)
        _ = await second.ending()
    }

    @Test func neverReusesAConnectionWithAnOverdueReply() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let before = try await client.send(["CLIENT", "ID"]).int
            // Blocks for longer than the timeout: its reply must not be taken for that of a later command.
            await #expect { try await client.send(["BLPOP", "nothing", "30"], timeout: .milliseconds(50)) } throws: {
                ($0 as? RedisError)?.code == .timeout
            }
            #expect(try await client.send(["ECHO", "later"]).string == "later")
            let after = try await client.send(["CLIENT", "ID"]).int
            #expect(before != after)
            // The server notices the end of the old connection a little later.
            while try await client.send(["CLIENT", "LIST"]).string?.contains("id=\(before ?? -1) ") == true {
                await Task.yield()
            }
        }
    }

    @Test func failsAfterClose() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            try await client.send(["PING"])
            client.close()
            await #expect { try await client.send(["PING"]) } throws: { ($0 as? RedisError)?.code == .closed }
        }
    }

    @Test func loadsScriptsThatTheServerForgot() async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let script = RedisScript(name: "sum", source: "return tonumber(ARGV[1]) + redis.call('INCR', KEYS[1])")
            #expect(try await client.run(script, keys: ["n"], arguments: ["10"]).int == 11)
            try await client.send(["SCRIPT", "FLUSH"])
            let replies = try await client.run(script, calls: [(["n"], ["20"]), (["n"], ["30"])])
            #expect(replies.map(\.int) == [22, 33])
        }
    }
}
