import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Responses that are not HTTP, or not quite.
@Suite(.timeLimit(.minutes(1))) struct BadResponseTests {
    private static let end = "\r\nContent-Length: 2\r\n\r\nok"

    private static let noHTTP: [(String, String)] = [
        ("garbage", "hello"), ("another protocol", "SSH-2.0-OpenSSH_9.2\r\n"),
        ("HTTP/0.9", "<html>an image</html>\r\n"),
        ("a version that is none", "HTTP/9.9 200 OK" + end), ("a status of letters", "HTTP/1.1 abc OK" + end),
        ("a status of two digits", "HTTP/1.1 20 OK" + end), ("no status", "HTTP/1.1\r\n" + end),
        ("a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok"),
        ("a length beyond all numbers", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nok"),
        ("a length with a letter", "HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok"),
        ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
        ("a header line without an end", "HTTP/1.1 200 OK\r\nX-Long: " + String(repeating: "a", count: 400_000)),
        ("an unknown encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: weird\r\n\r\nok"),
        ("a status line without an end", "HTTP/1.1 200 " + String(repeating: "a", count: 400_000)),
    ]

    @Test(arguments: noHTTP)
    func bytesThatAreNotHTTPAreABadResponse(_ name: String, _ answer: String) async throws {
        try await RawServer.run(answer: { _ in Data(answer.utf8) }) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/a"), with: DataLoader.local())
            let failure = try #require(probe.failure, "\(name)")
            #expect(failure.code == .badResponse && failure.isRetryable && failure.isOriginFailure, "\(failure)")
            #expect(failure.message.contains("127.0.0.1") && !failure.message.contains("memory"))
        }
    }

    /// RFC 9110 section 8.6: a length that is repeated with the same value is one length.
    @Test func theSameLengthTwiceIsALength() async throws {
        let answer = Data("HTTP/1.1 200 OK\r\nContent-Length: 2\(Self.end)".utf8)
        try await RawServer.run(answer: { _ in answer }) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/a"), with: DataLoader.local())
            #expect(probe.error == nil && probe.data == Data("ok".utf8))
        }
    }

    @Test func theURLIsStillToBlameForItself() async throws {
        let url = try #require(URL(string: "gopher://127.0.0.1/a"))
        let probe = await LoadProbe.load(url, with: DataLoader.local())
        #expect(probe.failure?.code == .invalidURL && probe.failure?.isRetryable == false)
    }

    @Test func aHeaderOfManyLinesIsTooLarge() async throws {
        let lines = (0..<20_000).map { "X-\($0): 1\r\n" }.joined()
        try await RawServer.run(answer: { _ in Data(("HTTP/1.1 200 OK\r\n" + lines).utf8) }) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/a"), with: DataLoader.local())
            #expect(probe.failure?.code == .headerTooLarge)
        }
    }

    /// The bytes of the path are sent back unchanged.
    @Test func latin1InALocationIsFollowedByteByByte() async throws {
        let requests = Mutex<[String]>([])
        let answer: @Sendable (String) -> Data = { line in
            requests.withLock { $0.append(line) }
            if line.hasPrefix("GET /start") {
                return Data("HTTP/1.1 302 Found\r\nLocation: /caf".utf8) + Data([0xE9])
                    + Data("/\u{20}b?q=".utf8) + Data([0xFF]) + Data(Self.end.utf8)
            }
            return Data("HTTP/1.1 200 OK\(Self.end)".utf8)
        }
        try await RawServer.run(answer: answer) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/start"), with: DataLoader.local())
            #expect(probe.error == nil && probe.data == Data("ok".utf8))
            #expect(requests.withLock { $0.last } == "GET /caf%E9/%20b?q=%FF HTTP/1.1")
        }
    }

    @Test func otherFieldsInLatin1AreRead() async throws {
        let answer = Data("HTTP/1.1 200 OK\r\nX-Name: caf".utf8) + Data([0xE9]) + Data(Self.end.utf8)
        try await RawServer.run(answer: { _ in answer }) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/a"), with: DataLoader.local())
            let response = probe.response
            #expect(response?.value(forHTTPHeaderField: "X-Name") == "café")
        }
    }

    /// RFC 9110 section 15.2.
    @Test func interimResponsesAreSkipped() async throws {
        let answer =
            "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
            + "HTTP/1.1 200 OK\r\nX-Late: 1\(Self.end)"
        try await RawServer.run(answer: { _ in Data(answer.utf8) }) { (server) async throws in
            let probe = await LoadProbe.load(server.url("/a"), with: DataLoader.local())
            let response = probe.response
            #expect(probe.error == nil && response?.statusCode == 200)
            #expect(response?.value(forHTTPHeaderField: "X-Late") == "1")
            #expect(response?.value(forHTTPHeaderField: "X-Early") == nil)
        }
    }

    /// The image decodes if the header field is wrong; if the field is right, the error names the encoding.
    @Test func anEncodingThatIsNotDecodedIsNamed() async throws {
        let gzip = Data([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8])
        let field = [("Content-Encoding", "gzip")]
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            path == "/image" ? .image(TestPipeline.png, headers: field) : .image(gzip, headers: field)
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let pipeline = TestPipeline.make(DataLoader.local())
            let small = Rendition(width: 4, format: .png)
            _ = try await pipeline.renditions([small], for: .init(url: origin.url("/image")))
            let failures = [
                await TestPipeline.failure {
                    try await pipeline.renditions([small], for: .init(url: origin.url("/gzip")))
                },
                await TestPipeline.failure { try await pipeline.image(for: origin.url("/gzip")) },
            ]
            for failure in failures {
                #expect([.unsupportedFormat, .decoderNotRegistered].contains(failure?.code))
                #expect(failure?.message.contains("gzip") == true, "\(failure?.message ?? "")")
            }
        }
    }
}
