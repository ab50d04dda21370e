import NIOCore
import Testing

@testable import MegatonRedis

@Suite struct RedisCommandEncoderTests {
    private func encode(_ commands: [RedisCommand]) -> [ByteBuffer] {
        var encoder = RedisCommandEncoder(allocator: ByteBufferAllocator())
        for command in commands { encoder.encode(command) }
        return encoder.finish()
    }

    @Test func writesLengthsInBytes() {
        let parts = encode([["SET", "ключ", .buffer(ByteBuffer(bytes: [0, 13, 10]))], ["PING"]])
        let text = "*3\r\n$3\r\nSET\r\n$8\r\nключ\r\n$3\r\n\0\r\n\r\n*1\r\n$4\r\nPING\r\n"
        #expect(parts.map { String(buffer: $0) } == [text])
    }

    @Test(arguments: [0, 1, 9, 10, 99, 100, 9_999, 10_000, 100_000])
    func writesTextsOfAnyLength(count: Int) {
        let text = String(repeating: "x", count: count)
        let image = ByteBuffer(repeating: 7, count: RedisCommandEncoder.copyLimit + 1)
        let parts = encode([["SET", .buffer(image), .string(text)]])
        #expect(parts.count == 3)
        #expect(String(buffer: parts[2]) == "\r\n$\(count)\r\n\(text)\r\n")
    }

    @Test func doesNotCopyLargeArguments() {
        let image = ByteBuffer(repeating: 7, count: RedisCommandEncoder.copyLimit + 1)
        let parts = encode([["SET", "k", .buffer(image)]])
        #expect(parts.count == 3)
        #expect(parts[1] == image)
        #expect(String(buffer: parts[2]) == "\r\n")
    }

    @Test func isEmptyForNothing() {
        #expect(encode([]).isEmpty)
    }
}
