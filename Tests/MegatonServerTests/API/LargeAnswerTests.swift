import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Large answers of the API, to clients that are slow or read nothing.
@Suite(.timeLimit(.minutes(2))) struct LargeAnswerTests {
    /// Jobs of 900 KB, of which one answer has ten: more than the buffer of the server's socket holds.
    private static let letters = 24

    private func addDeadJobs(_ server: APIServer) async throws {
        for number in 0..<Self.letters {
            let content = DeadLetter.Content(
                code: "not_found",
                message: "It is gone.",
                job: String(repeating: "a", count: 900_000)
            )
            let json = String(decoding: try JSONEncoder().encode(content), as: UTF8.self)
            _ = try await server.send(["ZADD", .string(APIServer.keys.dead), .int(number), "j\(number)"])
            _ = try await server.send(["HSET", .string(APIServer.keys.deadInfo), "j\(number)", .string(json)])
        }
    }

    /// Fault: a request gave its place back before its answer was sent, so that nothing limited the answers that
    /// clients left unread.
    @Test func anAnswerKeepsItsPlaceUntilItIsRead() async throws {
        try await APIServer.run { (server) async throws in
            try await addDeadJobs(server)
            // The buffer is fixed: the system may enlarge that of a socket to 32 MB, even if no client reads from it.
            let script = """
                import socket, time
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", \(server.port)))
                s.sendall(b"GET /api/v1/dead?limit=1000 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
                print(s.recv(12).decode(), flush=True)
                time.sleep(100)
                """
            var clients: [ProgramUnderTest] = []
            defer { for client in clients { client.send(SIGKILL) } }
            for _ in 0..<8 {
                let client = try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
                clients.append(client)
                try await client.waitForOutput { $0.contains("HTTP/1.1 200") }
            }
            let refused = try await server.ask("dead?limit=1")
            #expect(refused.status == 503)
            #expect(try refused.detail().contains("8 requests for dead jobs open"))
            clients[0].send(SIGKILL)
            _ = await clients[0].ending()
            // Each question takes a process, so this is no busy loop; the suite's time limit bounds it.
            while try await server.ask("dead?limit=1").status == 503 { try Task.checkCancellation() }
        }
    }

    @Test func aSlowClientGetsTheWholeAnswer() async throws {
        try await APIServer.run { (server) async throws in
            try await addDeadJobs(server)
            let answer = try await server.ask("dead?limit=1000", ["--limit-rate", "20M"])
            #expect(answer.status == 200)
            let length = try #require(answer.field("Content-Length").flatMap { Int($0) })
            #expect(answer.body.utf8.count == length && length > 8 << 20)
            let dead = try #require(try answer.object()["dead"] as? [[String: Any]])
            #expect(dead.count == 10 && dead.last?["id"] as? String == "j9")
        }
    }
}
