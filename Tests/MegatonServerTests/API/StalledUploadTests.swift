import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// Uploads whose clients send a part of the body and nothing more.
@Suite(.timeLimit(.minutes(1))) struct StalledUploadTests {
    /// A client that sends the beginning of a body of a megabyte and waits for the answer.
    private func stalled(_ server: APIServer, _ name: String, lines: Int) throws -> ProgramUnderTest {
        let script = """
            import socket
            s = socket.create_connection(("127.0.0.1", \(server.port)))
            s.sendall(b"POST /api/v1/batches?name=\(name) HTTP/1.1\\r\\nHost: localhost\\r\\n"
                      b"Content-Type: application/x-ndjson\\r\\nContent-Length: 1000000\\r\\n\\r\\n")
            for number in range(\(lines)):
                s.sendall(b'{"source": "http://127.0.0.1:1/%d.png"}\\n' % number)
            print("sent", flush=True)
            answer = b""
            while part := s.recv(65536):
                answer += part
            print(answer.decode())
            """
        return try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
    }

    // Fault: the connection was closed after a minute without an answer, and the batch looked finished.
    @Test(arguments: [0, 1, 600]) func aClientThatStallsIsRefusedAndItsBatchCancelled(_ lines: Int) async throws {
        let pace = UploadPace(grace: .milliseconds(300), bytesPerSecond: 1 << 20)
        try await APIServer.run(pace: pace) { (server) async throws in
            let ending = await (try stalled(server, "stalled", lines: lines)).ending()
            #expect(ending.output.contains("HTTP/1.1 408 "), "\(ending.output)")
            #expect(ending.output.contains("came too slowly"), "\(ending.output)")
            let batch = try await server.ask("batches/stalled")
            if lines < 500 {
                // Jobs are pushed 500 at a time.
                #expect(batch.status == 404, "\(batch.body)")
            } else {
                #expect(ending.output.contains("The batch stalled was cancelled"), "\(ending.output)")
                #expect(try batch.object()["state"] as? String != "open", "\(batch.body)")
            }
        }
    }

    /// Fault: one byte of a job now and then kept a connection for days.
    @Test func aJobThatStallsIsRefused() async throws {
        let pace = UploadPace(grace: .milliseconds(300), bytesPerSecond: 1 << 20)
        try await APIServer.run(pace: pace) { (server) async throws in
            let script = """
                import socket
                s = socket.create_connection(("127.0.0.1", \(server.port)))
                s.sendall(b"POST /api/v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
                          b"Content-Length: 1000\\r\\n\\r\\n{")
                answer = b""
                while part := s.recv(65536):
                    answer += part
                print(answer.decode())
                """
            let client = try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
            let answer = try APIServer.Answer(await client.ending().output)
            #expect(answer.status == 408 && answer.field("Connection") == "close", "\(answer.body)")
            #expect(try answer.detail().hasPrefix("The request's body came too slowly"))
        }
    }

    @Test func anEmptyListIsNoBatch() async throws {
        try await APIServer.run { (server) async throws in
            for lines in [[], ["", ""]] as [[String]] {
                let answer = try await server.submit(lines, "name=empty")
                #expect(answer.status == 400)
                #expect(try answer.detail().contains("has no job"), "\(answer.body)")
            }
            // The name is free.
            let answer = try await server.submit([#"{"source":"http://127.0.0.1:1/a.png"}"#], "name=empty")
            #expect(answer.status == 201, "\(answer.body)")
        }
    }

    // Fault: the router took several slashes for one, so that a request without a name reached another route.
    @Test func anEmptyNameIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            for path in ["batches//outcomes", "batches//cancel", "jobs//x"] {
                let answer = try await server.ask(path)
                #expect(answer.status == 400)
                #expect(try answer.detail().contains("two slashes"), "\(answer.body)")
            }
        }
    }
}
