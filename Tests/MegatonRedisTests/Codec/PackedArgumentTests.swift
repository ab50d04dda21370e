import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonRedis

/// Arguments that a script takes apart, on a real Redis.
@Suite(.timeLimit(.minutes(1))) struct PackedArgumentTests {
    private func unpacked(_ arguments: [RedisArgument], _ redis: RedisClient) async throws -> [String?] {
        let reply = try await redis.send(["EVAL", "return cmsgpack.unpack(ARGV[1])", "0", .packed(arguments)])
        return (reply.array ?? []).map(\.string)
    }

    @Test func aScriptReadsTheSameTexts() async throws {
        try await RedisServerProcess.run { server in
            let redis = server.client()
            defer { redis.close() }
            // The lengths at which the format of a text changes.
            let texts = [0, 1, 31, 32, 255, 256, 65_535, 65_536, 2_000_000].map { String(repeating: "x", count: $0) }
            let asText = try await unpacked(texts.map { .string($0) }, redis)
            let asBytes = try await unpacked(texts.map { .buffer(ByteBuffer(string: $0)) }, redis)
            #expect(asText == texts && asBytes == texts)
            for count in [0, 1, 15, 16, 70_000] {
                let numbers = try await unpacked((0..<count).map { .int($0) }, redis)
                #expect(numbers == (0..<count).map(String.init))
            }
            let odd = try await unpacked(["é\0\r\n"], redis)
            #expect(odd == ["é\0\r\n"])
        }
    }
}
