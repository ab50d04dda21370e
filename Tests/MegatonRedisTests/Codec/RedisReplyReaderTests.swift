import NIOCore
import Testing

@testable import MegatonRedis

@Suite struct RedisReplyReaderTests {
    private static let stream =
        "+OK\r\n:-42\r\n$-1\r\n*-1\r\n$5\r\na\r\nb\0\r\n-ERR no\r\n*3\r\n:1\r\n*2\r\n+x\r\n$0\r\n\r\n-OOM full\r\n*0\r\n"
    private static let values: [RedisValue] = [
        .status("OK"), .integer(-42), .null, .null, .bulk(ByteBuffer(string: "a\r\nb\0")), .error("ERR no"),
        .array([.integer(1), .array([.status("x"), .bulk(ByteBuffer())]), .error("OOM full")]), .array([]),
    ]

    @Test func readsEveryTypeAtOnce() throws {
        var bytes = ByteBuffer(string: Self.stream)
        #expect(try RedisReplyReader().read(&bytes) == Self.values)
    }

    @Test(arguments: [1, 2, 3, 7, 16])
    func readsTheSameInPieces(of size: Int) throws {
        let reader = RedisReplyReader()
        var found: [RedisValue] = []
        var rest = ByteBuffer(string: Self.stream)
        while rest.readableBytes > 0 {
            var piece = rest.readSlice(length: min(size, rest.readableBytes))!
            found += try reader.read(&piece)
        }
        #expect(found == Self.values)
    }

    @Test func keepsLargeBulksWhole() throws {
        let payload = ByteBuffer(bytes: (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        var bytes = ByteBuffer(string: "$\(payload.readableBytes)\r\n")
        bytes.writeImmutableBuffer(payload)
        bytes.writeString("\r\n+next\r\n")
        #expect(try RedisReplyReader().read(&bytes) == [.bulk(payload), .status("next")])
    }

    @Test(arguments: [
        "hello\r\n", "*1\r\n%1\r\n", "$x\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    ])
    func refusesWhatIsNotRESP2(_ text: String) {
        var bytes = ByteBuffer(string: text)
        #expect { try RedisReplyReader().read(&bytes) } throws: { ($0 as? RedisError)?.code == .protocolError }
    }

    @Test func refusesAnAnnouncedFloodOfElements() {
        var bytes = ByteBuffer(string: "*2147483647\r\n")
        #expect { try RedisReplyReader().read(&bytes) } throws: { ($0 as? RedisError)?.code == .protocolError }
    }

    @Test func refusesABulkBeyondItsLimit() {
        let reader = RedisReplyReader(limits: .init(bytes: 1000))
        #expect {
            var bytes = ByteBuffer(string: "$1099511627776\r\n" + String(repeating: "a", count: 2000))
            _ = try reader.read(&bytes)
        } throws: { ($0 as? RedisError)?.code == .protocolError }
    }

    /// hiredis releases the bytes of a parsed element, so it never holds much of such a reply itself.
    @Test func limitsTheBytesOfAnArrayAsAWhole() {
        let element = "$40\r\n\(String(repeating: "a", count: 40))\r\n"
        let text = "*64\r\n" + String(repeating: element, count: 64)
        let reader = RedisReplyReader(limits: .init(bytes: 1000))
        #expect {
            for byte in text.utf8 {
                var bytes = ByteBuffer(bytes: [byte])
                _ = try reader.read(&bytes)
            }
        } throws: { ($0 as? RedisError)?.code == .protocolError }
    }

    @Test func limitsTheElementsOfArraysWithinArraysTogether() throws {
        let reader = RedisReplyReader(limits: .init(elements: 8))
        var fits = ByteBuffer(string: "*2\r\n*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:1\r\n:2\r\n:3\r\n*8\r\n")
        #expect(try reader.read(&fits).count == 1, "each reply has the limit for itself")
        var flood = ByteBuffer(string: "*1\r\n")
        #expect { try reader.read(&flood) } throws: { ($0 as? RedisError)?.code == .protocolError }
    }

    @Test func readsOnAfterItsBufferWasReplaced() throws {
        let reader = RedisReplyReader()
        for _ in 0..<3 {
            var bytes = ByteBuffer(string: "$2000000\r\n" + String(repeating: "z", count: 2_000_000) + "\r\n:7\r\n")
            #expect(try reader.read(&bytes).last == .integer(7))
        }
    }
}
