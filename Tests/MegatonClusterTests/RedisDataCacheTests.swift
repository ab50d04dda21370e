import Logging
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct RedisDataCacheTests {
    /// Fault: a worker that died after the bytes and before their time-out left a key that nothing would ever delete.
    @Test func whateverArrivesOfAPieceIsForgottenAgain() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let chunks = [ByteBuffer(string: "one"), ByteBuffer(string: "two")]
            let commands = RedisDataCache.writing(chunks[...], to: "piece")
            for count in 1...commands.count {
                // Its connection ends with the worker.
                let worker = server.client("worker")
                _ = try await worker.pipeline(Array(commands.prefix(count)))
                worker.close()
                while try await client.send(["CLIENT", "LIST"]).string?.contains("name=megaton:worker") == true {
                    await Task.yield()
                }
                #expect(try await client.send(["PTTL", "piece"]).int != -1, "after \(count) of its commands")
            }
            #expect(try await client.send(["HMGET", "piece", "0", "1"]).array?.map(\.string) == ["one", "two"])
        }
    }

    @Test func whatWasRefusedAtOnceSaysMoreThanItsTransaction() {
        let within = RedisValue.array([.integer(1), .error("WRONGTYPE it is no hash")])
        #expect(throws: RedisError(reply: "WRONGTYPE it is no hash")) { () throws in
            try RedisDataCache.check([.status("OK"), .status("QUEUED"), within])
        }
        #expect(throws: RedisError(reply: "OOM full")) { () throws in
            try RedisDataCache.check([.status("OK"), .error("OOM full"), within])
        }
        #expect(throws: Never.self) { () throws in try RedisDataCache.check([.status("OK"), .array([.integer(1)])]) }
    }

    /// What a transaction says of its commands is heard.
    @Test func aPieceThatIsRefusedIsToldOf() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["SET", "piece", "no hash"])
            let cache = RedisDataCache(redis: client, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await #expect { try await cache.writeChunks([ByteBuffer(string: "one")], to: "piece") } throws: {
                "\($0)".contains("WRONGTYPE")
            }
            try await client.send(["DEL", "piece"])
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            await #expect { try await cache.writeChunks([ByteBuffer(string: "one")], to: "piece") } throws: {
                ($0 as? RedisError)?.code == .outOfMemory
            }
            #expect(try await client.send(["EXISTS", "piece"]).int == 0)
        }
    }
}
