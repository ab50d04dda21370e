import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonHTTP
@testable import MegatonServer

/// Bytes that are no request of HTTP.
@Suite(.timeLimit(.minutes(2))) struct InvalidRequestTests {
    /// All that a server answers to bytes, until it closes the connection.
    private func output(of server: APIServer, to bytes: String) async throws -> String {
        let script = "exec 3<>/dev/tcp/127.0.0.1/\(server.port); printf '\(bytes)' >&3; cat <&3"
        return await (try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])).ending().output
    }

    /// Fault: the answer was the framework's own, without a body.
    @Test(arguments: [
        "NO HTTP\\r\\n\\r\\n", "GET /api/v1/batches HTTP/1.1\\r\\nHost localhost\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.1\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.1\\r\\nHost: localhost\\r\\nhost: elsewhere.test\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.0\\r\\nHost: localhost\\r\\nHost: localhost\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.1\\r\\n\\r\\nNO HTTP\\r\\n\\r\\n",
        // A proxy may read another host, or another length.
        "GET /api/v1/batches HTTP/1.1\\r\\nHost: a b/c\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.1\\r\\nHost: [::1]evil.test\\r\\n\\r\\n",
        "GET /api/v1/batches HTTP/1.1\\r\\nHost: localhost:80@evil.test\\r\\n\\r\\n",
        "POST /api/v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\nTransfer-Encoding: gzip\\r\\n\\r\\n",
        // The second request on a connection.
        "GET /api/v1/batches/%%FF HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n",
        "GET /api/v1/batches/%%FF HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\nNO HTTP\\r\\n\\r\\n",
    ]) func theAnswerIsAProblemDocument(_ bytes: String) async throws {
        try await APIServer.run { (server) async throws in
            let output = try await output(of: server, to: bytes)
            let last = try #require(output.components(separatedBy: "HTTP/1.1 ").last)
            let answer = try APIServer.Answer("HTTP/1.1 " + last)
            #expect(answer.status == 400 && answer.field("Connection") == "close", "\(output)")
            #expect(answer.field("Content-Length") == "\(answer.body.utf8.count)")
            #expect(answer.field("Cache-Control") == "no-store")
            #expect(HTTPDate.parse(answer.field("Date")) != nil, "RFC 9110 section 6.6.1")
            #expect(try answer.detail().hasPrefix("The request is not valid HTTP"), "\(output)")
        }
    }

    /// Fault: the connection stayed open, and the server kept all that followed in memory.
    @Test(arguments: [
        "GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "GET /api/v1/batches HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /live HTTP/1.1\r\nHost: localhost\r\nProxy-Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]) func aConnectionForAnotherProtocolEndsWithTheAnswer(_ bytes: String) async throws {
        try await APIServer.run { (server) async throws in
            let answer = try APIServer.Answer(try await output(of: server, to: bytes))
            #expect(answer.status < 500 && answer.field("Connection") == "close", "\(answer.fields)")
            #expect(try await server.ask("batches").status == 200)
        }
    }

    /// Fault: five pieces of a body made the framework wait without an end, also at the shutdown of the server.
    @Test(arguments: ["dashboard/events", "batches/spring/events"]) func aStreamOfEventsTakesNoBody(
        _ path: String
    ) async throws {
        try await APIServer.run { (server) async throws in
            try await server.makeBatch("spring", outcomes: 1, isFinished: false)
            let body = String(repeating: "1\r\na\r\n", count: 10) + "0\r\n\r\n"
            for fields in ["Transfer-Encoding: chunked", "Content-Length: 5"] {
                let bytes =
                    "GET /api/v1/\(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(fields)\r\n\r\n"
                    + (fields.hasPrefix("T") ? body : "12345")
                let answer = try APIServer.Answer(try await output(of: server, to: bytes))
                #expect(answer.status == 400, "\(answer.fields)")
                #expect(try answer.detail().contains("has no body"))
            }
        }
    }

    @Test func anOldClientNeedsNoHost() async throws {
        try await APIServer.run { (server) async throws in
            let bytes = "GET /api/v1/batches HTTP/1.0\\r\\n\\r\\n"
            #expect(try APIServer.Answer(try await output(of: server, to: bytes)).status == 200)
        }
    }
}
