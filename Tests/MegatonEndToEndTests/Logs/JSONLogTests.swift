import Foundation
import Logging
import Synchronization
import Testing

@testable import MegatonCommandLine

/// The log as JSON.
@Suite struct JSONLogTests {
    /// Collects lines.
    private final class Lines: Sendable {
        private let lines = Mutex<[Data]>([])
        var all: [Data] { lines.withLock { $0 } }
        func add(_ line: Data) { lines.withLock { $0.append(line) } }
    }

    private func logger(_ lines: Lines) -> Logger {
        Logger(label: "megaton.worker") { label in
            JSONLogHandler(
                label: label,
                now: { Date(timeIntervalSince1970: 1_700_000_000.25) },
                write: { lines.add($0) }
            )
        }
    }

    @Test func aLineIsOneObject() throws {
        let lines = Lines()
        var logger = logger(lines)
        logger[metadataKey: "worker.id"] = "host:1:a"
        logger.warning("something", metadata: ["count": .stringConvertible(3), "seconds": .stringConvertible(0.25)])
        #expect(
            String(decoding: lines.all[0], as: UTF8.self)
                == #"{"time":"2023-11-14T22:13:20.250Z","level":"warning","logger":"megaton.worker","#
                + #""message":"something","count":3,"seconds":0.25,"worker.id":"host:1:a"}"# + "\n"
        )
    }

    /// A source or an error message may contain anything.
    @Test func hostileTextStaysOneLine() throws {
        let lines = Lines()
        let text = "a\"b\\c\nd\r\u{0}\u{2028}é/\u{1F600}"
        logger(lines).error("\(text)", metadata: ["job.source": "\(text)", "time": "mine"])
        #expect(lines.all.count == 1 && lines.all[0].count { $0 == UInt8(ascii: "\n") } == 1)
        let object = try #require(try JSONSerialization.jsonObject(with: lines.all[0]) as? [String: Any])
        #expect(object["message"] as? String == text && object["job.source"] as? String == text)
        #expect(object["time"] as? String == "2023-11-14T22:13:20.250Z")
    }

    @Test func nestedMetadataAreObjectsAndArrays() throws {
        let lines = Lines()
        logger(lines).info("x", metadata: ["list": ["a", ["b": "c"]], "nan": .stringConvertible(Double.nan)])
        let object = try #require(try JSONSerialization.jsonObject(with: lines.all[0]) as? [String: Any])
        #expect((object["list"] as? [Any])?.count == 2)
        #expect(object["nan"] as? String == "nan")
    }
}
