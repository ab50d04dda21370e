import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// Batches through HTTP: submission, counters and changes.
@Suite(.timeLimit(.minutes(2))) struct BatchRouteTests {
    private static let job = #"{"source":"data:,a"}"#

    @Test func aListOfManyLinesIsABatch() async throws {
        try await APIServer.run { (server) async throws in
            let lines = (0..<10_000).map { #"{"id":"j\#($0)","source":"https://example.com/\#($0).jpg"}"# }
            let answer = try await server.submit(lines, "name=spring&weight=3")
            #expect(answer.status == 201, "\(answer.body)")
            #expect(answer.field("Location") == "/api/v1/batches/spring")
            #expect(answer.field("Cache-Control") == "no-store")
            #expect(try answer.object()["submitted"] as? Int == 10_000)
            let batch = try await server.ask("batches/spring").object()
            #expect(batch["state"] as? String == "running" && batch["submitted"] as? Int == 10_000)
            #expect(batch["outcomes"] as? Int == 0, "it keeps outcomes")
            let stored = try await server.send(["LLEN", .string(APIServer.keys.jobs(batch: "spring"))])
            #expect(stored.int == 10_000)
        }
    }

    @Test func aBatchWithoutANameGetsOne() async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.submit(["", Self.job, "  ", Self.job + "\r", ""], "")
            let name = try #require(try answer.object()["batch"] as? String, "\(answer.body)")
            #expect(try answer.object()["submitted"] as? Int == 2, "empty lines are no jobs")
            #expect(try await server.ask("batches/\(name)").status == 200)
        }
    }

    /// Clients remove these segments from the URLs of a batch: it could be submitted, and never be read.
    @Test(arguments: [".", ".."]) func aNameThatUrlsCannotHaveIsRefused(_ name: String) async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.submit([Self.job], "name=\(name)")
            #expect(answer.status == 400, "\(answer.body)")
            #expect(try answer.detail().contains(#"except "." and "..""#), "\(answer.body)")
            #expect(try await server.submit([Self.job], "name=...").status == 201)
        }
    }

    @Test func aPackIsTakenApart() async throws {
        try await APIServer.run { (server) async throws in
            let pack = #"{"sources":["data:,a","data:,b",{"id":"c","source":"data:,c"}]}"#
            let answer = try await server.submit([pack, Self.job], "name=spring")
            #expect(try answer.object()["submitted"] as? Int == 4, "\(answer.body)")
        }
    }

    @Test func jobsContinueTheTraceOfTheirRequestIfTheyHaveNone() async throws {
        try await APIServer.run { (server) async throws in
            let (trace, span) = ("00-0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331-01")
            let own = "\(trace)-00f067aa0ba902b7-00"
            let lines = [
                Self.job, #"{"source":"data:,b","traceparent":"\#(own)"}"#, #"{"sources":["data:,c","data:,d"]}"#,
            ]
            let options = APIServer.list + ["--header", "Traceparent: \(trace)-\(span)"]
            let answer = try await server.submit(lines, "name=spring", options)
            #expect(answer.status == 201, "\(answer.body)")
            let key = APIServer.keys.jobs(batch: "spring")
            let pushed = try await server.send(["LRANGE", .string(key), "0", "-1"]).array ?? []
            let jobs = try pushed.map { try Job(json: Data(($0.string ?? "").utf8)) }
            let parents = Dictionary(jobs.map { ($0.source, $0.traceparent) }, uniquingKeysWith: { first, _ in first })
            let sent = "\(trace)-\(span)"
            #expect(parents == ["data:,a": sent, "data:,b": own, "data:,c": sent, "data:,d": sent])
        }
    }

    @Test func anInvalidLineCancelsTheBatch() async throws {
        try await APIServer.run { (server) async throws in
            let lines = Array(repeating: Self.job, count: 1500) + [#"{"source":""}"#]
            let answer = try await server.submit(lines + Array(repeating: Self.job, count: 500), "name=spring")
            #expect(answer.status == 400)
            #expect(try answer.detail().hasPrefix("Line 1501 is no job: source is empty"), "\(answer.body)")
            let end = "The batch spring was cancelled; correct the line, and submit all jobs again under another name."
            #expect(try answer.detail().hasSuffix(end), "\(answer.body)")
            let batch = try await server.ask("batches/spring").object()
            #expect(batch["state"] as? String == "finished" && batch["cancelled"] as? Int == 1500)
        }
    }

    @Test func anInvalidLineBeforeTheFirstPushLeavesNothing() async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.submit([Self.job, #"{"source":""}"#], "name=late")
            #expect(answer.status == 400)
            let end = "No job of the request was submitted, and nothing of it remains; correct the line, and submit"
            #expect(try answer.detail().hasSuffix(end + " all jobs again."), "\(answer.body)")
            #expect(try await server.ask("batches/late").status == 404)
            #expect(try await server.submit([Self.job], "name=late").status == 201, "the name is free")
        }
    }

    @Test func aLineThatIsTooLongIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            let long = #"{"source":"data:,\#(String(repeating: "a", count: JobLines.maximumBytes))"}"#
            let answer = try await server.submit([Self.job, long], "name=spring")
            #expect(answer.status == 413)
            #expect(try answer.detail().hasPrefix("Line 2 has more than 1048576 bytes"))
            #expect(try answer.detail().contains("nothing of it remains"), "\(answer.body)")
            #expect(try await server.ask("batches/spring").status == 404, "nothing was pushed")
        }
    }

    /// A client that has gone: the end of its connection looks like that of a body.
    @Test(arguments: [true, false]) func aClientThatDisconnectsCancelsItsBatch(_ isChunked: Bool) async throws {
        try await APIServer.run { (server) async throws in
            let body = String(repeating: Self.job + "\n", count: 600)
            let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000000"
            let head = "POST /api/v1/batches?name=spring HTTP/1.1\r\nHost: localhost\r\n"
            let type = "Content-Type: application/x-ndjson\r\n\(framing)\r\n\r\n"
            let request = head + type + (isChunked ? "F0000\r\n" : "") + body
            let file = try server.directory.write(Data(request.utf8), to: "request")
            let script = "exec 3<>/dev/tcp/127.0.0.1/\(server.port); cat '\(file)' >&3"
            _ = await (try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])).ending()
            let key = APIServer.keys.batch("spring")
            try await server.redis.wait(forChangesOf: [key]) { (redis) async throws in
                try await redis.send(["HGET", .string(key), "cancelled"]).int == 500
            }
        }
    }

    /// Each wait for this client is too long.
    @Test func anUploadThatIsTooSlowIsEnded() async throws {
        let pace = UploadPace(grace: .zero, bytesPerSecond: .max)
        try await APIServer.run(pace: pace) { (server) async throws in
            let head = "POST /api/v1/batches?name=spring HTTP/1.1\r\nHost: localhost\r\n"
            let type = "Content-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n"
            let file = try server.directory.write(Data((head + type + Self.job + "\n").utf8), to: "request")
            // The client would wait for as long as the connection is open.
            let script = "exec 3<>/dev/tcp/127.0.0.1/\(server.port); cat '\(file)' >&3; cat <&3"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            let answer = try APIServer.Answer(await client.ending().output)
            #expect(answer.status == 408)
            #expect(answer.field("Connection") == "close")
            #expect(try answer.detail().hasPrefix("The request's body came too slowly"))
            #expect(try await server.ask("batches/spring").status == 404, "nothing was pushed")
        }
    }

    @Test func aNameIsUsedOnce() async throws {
        try await APIServer.run { (server) async throws in
            #expect(try await server.submit([Self.job], "name=spring").status == 201)
            let answer = try await server.submit([Self.job], "name=spring")
            #expect(answer.status == 409)
            let detail = try answer.detail()
            #expect(detail.hasPrefix("A batch of this name was submitted before; choose another name."))
            #expect(detail.contains("GET /api/v1/batches/spring shows"), "it was this client, perhaps: \(detail)")
            let batch = try await server.ask("batches/spring").object()
            #expect(batch["cancelled"] as? Int == 0, "the first batch is left alone")
        }
    }

    @Test(arguments: [
        ("name=a%20b", 400), ("weight=0", 400), ("weight=101", 400), ("deduplicates=yes", 400), ("wight=2", 400),
        ("weight=1&weight=2", 400),
    ]) func anInvalidArgumentIsRefused(_ query: String, _ status: Int) async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.submit([Self.job], query)
            #expect(answer.status == status)
            #expect(try !answer.detail().isEmpty)
        }
    }

    @Test func anotherTypeIsRefused() async throws {
        try await APIServer.run { (server) async throws in
            let text = try await server.submit([Self.job], "", ["--header", "Content-Type: text/plain"])
            #expect(text.status == 415)
            #expect(try text.detail().contains("\"text/plain\""))
            let lines = try await server.submit([Self.job], "", ["--header", "Content-Type: Application/JSONL; a=b"])
            #expect(lines.status == 201)
        }
    }

    /// Clients may encode the colon of a name.
    @Test func aNameInThePathIsDecoded() async throws {
        try await APIServer.run { (server) async throws in
            #expect(try await server.submit([Self.job], "name=a%3Ab").status == 201)
            #expect(try await server.ask("batches/a%3Ab").object()["batch"] as? String == "a:b")
            for name in ["a%2Fb", "a%FF", "a%00"] {
                let answer = try await server.ask("batches/\(name)")
                #expect(answer.status == 400, "\(name)")
                #expect(try !answer.detail().isEmpty)
            }
        }
    }

    @Test(arguments: ["", "/outcomes", "/events"]) func anUnknownBatchIsNotFound(_ path: String) async throws {
        try await APIServer.run { (server) async throws in
            let answer = try await server.ask("batches/winter\(path)")
            #expect(answer.status == 404)
            #expect(try answer.detail().hasPrefix("There is no batch winter"))
        }
    }

    @Test func anUnknownBatchCannotBeChanged() async throws {
        try await APIServer.run { (server) async throws in
            for change in ["cancel", "close"] {
                #expect(try await server.ask("batches/winter/\(change)", ["--request", "POST"]).status == 404)
            }
        }
    }

    @Test func aBatchIsListedAndCancelled() async throws {
        try await APIServer.run { (server) async throws in
            for name in ["spring", "summer"] {
                #expect(try await server.submit([Self.job], "name=\(name)").status == 201)
            }
            let list = try await server.ask("batches?limit=1").object()
            #expect((list["batches"] as? [Any])?.count == 1 && list["has_more"] as? Bool == true)
            let all = try await server.ask("batches").object()
            #expect((all["batches"] as? [Any])?.count == 2 && all["has_more"] as? Bool == false)
            let cancelled = try await server.ask("batches/spring/cancel", ["--request", "POST"])
            #expect(cancelled.status == 200)
            #expect(try cancelled.object()["cancelled"] as? Int == 1)
        }
    }

    /// Fault: a client had no answer for a minute and more.
    @Test func aFullRedisIsAnsweredSoon() async throws {
        try await APIServer.run { (server) async throws in
            _ = try await server.send(["CONFIG", "SET", "maxmemory", "1"])
            let start = ContinuousClock.now
            let answer = try await server.submit([Self.job], "name=spring")
            #expect(start.duration(to: .now) < .seconds(20))
            #expect(answer.status == 503 && answer.field("Retry-After") == "1", "\(answer.body)")
            let sentence = "The queue's Redis is full and takes no more jobs. Nothing was submitted;"
            #expect(try answer.detail().hasPrefix(sentence), "\(answer.body)")
            _ = try await server.send(["CONFIG", "SET", "maxmemory", "0"])
            #expect(try await server.submit([Self.job], "name=spring").status == 201, "the name is free")
        }
    }

    /// Fault: the answer named neither the batch nor its jobs, so that a client that had chosen no name could not do
    /// anything about them.
    @Test func anOutageInTheMiddleOfAListNamesTheBatch() async throws {
        try await APIServer.run { (server) async throws in
            // The second half follows when the test says so.
            let script = """
                import signal, socket
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
                s = socket.create_connection(("127.0.0.1", \(server.port)))
                job = b'{"source":"data:,a"}\\n'
                s.sendall(b"POST /api/v1/batches?name=spring HTTP/1.1\\r\\nHost: localhost\\r\\n")
                s.sendall(b"Connection: close\\r\\n")
                s.sendall(b"Content-Type: application/x-ndjson\\r\\nContent-Length: %d\\r\\n\\r\\n" % (len(job) * 1000))
                s.sendall(job * 500)
                signal.sigwait([signal.SIGUSR1])
                s.sendall(job * 500)
                while data := s.recv(65536): print(data.decode(), end="", flush=True)
                """
            let client = try ProgramUnderTest(program: "/usr/bin/python3", arguments: ["-c", script])
            let key = APIServer.keys.batch("spring")
            try await server.redis.wait(forChangesOf: [key]) { (redis) async throws in
                try await redis.send(["HGET", .string(key), "submitted"]).int == 500
            }
            await server.redis.crash()
            client.send(SIGUSR1)
            let answer = try APIServer.Answer(await client.ending().output)
            #expect(answer.status == 503 && answer.field("Retry-After") == "1", "\(answer.body)")
            let detail = try answer.detail()
            #expect(detail.contains("Redis has acknowledged 500 jobs of the batch spring, which may have more"))
            #expect(detail.contains("submit all jobs again under the same name: if the answer is 409"), "\(detail)")
            // It had stored nothing. The server connects again after a pause.
            try await server.redis.startAgain()
            var again = try await server.submit([Self.job], "name=spring")
            while again.status == 503 { again = try await server.submit([Self.job], "name=spring") }
            #expect(again.status == 201, "\(again.body)")
        }
    }

    @Test func aListBehindAnOutageIsNotSubmitted() async throws {
        try await APIServer.run { (server) async throws in
            #expect(try await server.submit([Self.job], "name=spring").status == 201)
            await server.redis.crash()
            let answer = try await server.submit([Self.job], "name=summer")
            #expect(answer.status == 503 && answer.field("Retry-After") == "1", "\(answer.body)")
            let detail = try answer.detail()
            #expect(detail.hasPrefix("The queue's Redis is unreachable or busy ("), "\(detail)")
            #expect(detail.hasSuffix(" Nothing was submitted; send the request again after the time of Retry-After."))
        }
    }

    @Test func aRedisThatIsAwayIsNoFaultOfTheClient() async throws {
        try await APIServer.run { (server) async throws in
            #expect(try await server.submit([Self.job], "name=spring").status == 201)
            await server.redis.crash()
            for path in ["batches/spring", "batches", "batches/spring/outcomes", "jobs/a"] {
                let answer = try await server.ask(path)
                #expect(answer.status == 503, "\(path): \(answer.body)")
                #expect(answer.field("Retry-After") == "1")
            }
        }
    }
}
