import Foundation
import Hummingbird
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Parts of the routes that need no server.
@Suite struct JobLinesTests {
    /// The lines of a text that arrives in buffers of a size.
    private static func lines(_ text: String, by size: Int) throws -> [JobLines.Line] {
        var (lines, all) = (JobLines(), [JobLines.Line]())
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
            all += try lines.add(ByteBuffer(bytes: bytes[start..<min(start + size, bytes.count)]))
        }
        if let last = try lines.finish() { all.append(last) }
        return all
    }

    @Test(arguments: [1, 2, 3, 7, 1000]) func linesDoNotDependOnBuffers(_ size: Int) throws {
        let lines = try Self.lines("\u{FEFF}{\"a\":1}\r\n\n \t\n{}\n\n{\"b\":\"ä\"}", by: size)
        #expect(lines.map(\.number) == [1, 4, 6])
        #expect(lines.map { String(decoding: $0.json, as: UTF8.self) } == ["{\"a\":1}", "{}", "{\"b\":\"ä\"}"])
    }

    @Test func aLineHasALimit() throws {
        let longest = String(repeating: "a", count: JobLines.maximumBytes)
        #expect(try Self.lines(longest + "\nb", by: 65_536).count == 2)
        let error = #expect(throws: APIError.self) { try Self.lines("b\n" + longest + "a", by: 65_536) }
        #expect(error?.status.code == 413 && error?.detail.hasPrefix("Line 2 ") == true)
    }

    @Test func aPlaceIsFreeWhenItsHolderHasGone() throws {
        let limit = RequestLimit(2, of: "streams")
        var places = [try limit.enter(), try limit.enter()]
        let error = #expect(throws: APIError.self) { try limit.enter() }
        #expect(error?.status.code == 503 && error?.headers[.retryAfter] == "1")
        places.removeLast()
        places.append(try limit.enter())
        #expect(places.count == 2)
    }

    @Test(arguments: ["1", "501", "3.17.1"]) func aPositionIsItsText(_ text: String) {
        #expect(OutcomePosition(text)?.description == text)
    }

    @Test(arguments: ["", ".", "1.", "-1", "+1", "a", "1 ", "0", "0.7", "99999999999999999999"])
    func anotherTextIsNoPosition(_ text: String) {
        #expect(OutcomePosition(text) == nil)
    }

    @Test func shardsThatAPositionDoesNotNameBeginAtTheirStart() {
        var position = OutcomePosition.start
        position[2] = 5
        #expect(position.description == "1.1.5" && position[3] == 1)
    }
}
