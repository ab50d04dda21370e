import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// `megaton serve`: tokens, operators' requests, metrics, and its end.
@Suite(.timeLimit(.minutes(3))) struct ServeTests {
    /// An answer of the server.
    struct Answer {
        let status: Int
        let body: String

        /// The body as an object.
        var object: [String: Any] {
            (try? JSONSerialization.jsonObject(with: Data(body.utf8))) as? [String: Any] ?? [:]
        }
        var detail: String { object["detail"] as? String ?? "" }
    }

    /// A running server.
    struct Server {
        let process: ProgramUnderTest
        let port: Int

        /// Starts a server, and returns once it serves.
        init(_ arguments: [String]) async throws {
            process = try ProgramUnderTest.megaton(["serve", "--listen", "127.0.0.1:0"] + arguments)
            try await process.waitForErrors { $0.contains("serving HTTP") }
            let text = process.errors
            let line = try #require(text.split(separator: "\n").first { $0.contains("serving HTTP") }, "\(text)")
            let match = try #require(line.firstMatch(of: /address=127\.0\.0\.1:(\d+)/), "\(line)")
            port = try #require(Int(match.output.1))
        }

        func ask(
            _ path: String,
            _ method: String = "GET",
            token: String? = nil,
            body: String? = nil,
            type: String = "application/json",
            headers: [String] = []
        ) async throws -> Answer {
            var arguments = ["--silent", "--max-time", "30", "--request", method, "--write-out", "\n%{http_code}"]
            if method == "HEAD" { arguments.append("--head") }
            var headers = headers
            if let token { headers.append("Authorization: Bearer \(token)") }
            if let body {
                headers.append("Content-Type: \(type)")
                arguments += ["--data", body]
            }
            arguments += headers.flatMap { ["--header", $0] } + ["http://127.0.0.1:\(port)\(path)"]
            let curl = try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments)
            let parts = await curl.ending().output.components(separatedBy: "\n")
            return Answer(status: Int(parts.last ?? "") ?? 0, body: parts.dropLast().joined(separator: "\n"))
        }

        /// Asks until the answer has the status. Each request takes a process, so this is no busy loop; the suite's
        /// time limit bounds it.
        func wait(for status: Int, at path: String, token: String? = nil) async throws {
            while try await ask(path, token: token).status != status { try Task.checkCancellation() }
        }

        /// Ends the server by SIGTERM.
        func end() async {
            process.send(SIGTERM)
            let ending = await process.ending()
            #expect(ending.code == 0, "\(ending.errors)")
        }
    }

    static func token(_ name: String) -> String { "\(name)-0123456789abcdef" }

    /// Writes a file of tokens whose names are their scopes.
    static func tokens(_ tokens: [(name: String, scope: String)], in directory: TestDirectory) throws -> String {
        let items = tokens.map { name, scope in
            #"{"name": "\#(name)", "token": "\#(token(name))", "scopes": ["\#(scope)"]}"#
        }
        let json = "{\"tokens\": [\(items.joined(separator: ","))]}"
        let path = try directory.write(Data(json.utf8), to: "tokens.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return path
    }

    private static let all = [("read", "read"), ("submit", "submit"), ("admin", "admin")]

    /// Runs the body with a server that has a token for each scope.
    private func withServer(
        _ arguments: [String] = [],
        _ body: (Server, RedisServerProcess) async throws -> Void
    ) async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let tokens = try Self.tokens(Self.all, in: directory)
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--tokens", tokens] + arguments)
            try await server.wait(for: 200, at: "/ready")
            try await body(server, redis)
            await server.end()
        }
    }

    private func megaton(_ arguments: [String], _ redis: RedisServerProcess) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments + ["--redis", redis.url])).ending()
    }

    // MARK: - Access

    @Test func withoutTheRightTokenNothingIsShown() async throws {
        try await withServer { (server, _) async throws in
            #expect(try await server.ask("/live").status == 200)
            let queue = "/api/v1/queue"
            #expect(try await server.ask(queue).status == 401)
            #expect(try await server.ask(queue, token: Self.token("wrong")).status == 401)
            #expect(try await server.ask(queue, token: Self.token("submit")).status == 403)
            let state = try await server.ask(queue, token: Self.token("read"))
            #expect(state.status == 200 && state.object["is_known"] as? Bool != nil, "\(state.body)")
            #expect(state.object["ready_by_priority"] != nil)
            #expect(try await server.ask(queue, "HEAD", token: Self.token("read")).status == 200)
            #expect(try await server.ask(queue + "/pause", "POST", token: Self.token("read")).status == 403)
            // Paths and methods that do not exist look the same without a token.
            let others = [
                ("/else", "GET", 404, "no route"), ("/api/v1/else", "GET", 404, "no route"),
                (queue, "DELETE", 405, "has no method DELETE; it has GET, HEAD"),
                ("/api/v1/dead/drop", "PUT", 405, "it has GET, HEAD, POST"),
                ("/api/v1/batches/a/cancel", "GET", 405, "it has POST"),
            ]
            for (path, method, status, words) in others {
                #expect(try await server.ask(path, method).status == 401, "\(method) \(path)")
                let known = try await server.ask(path, method, token: Self.token("submit"))
                #expect(known.status == status && known.detail.contains(words), "\(known.body)")
            }
            let unknown = try await server.ask(queue + "?a=1", token: Self.token("read"))
            #expect(unknown.status == 400 && unknown.detail.contains("takes none"), "\(unknown.body)")
        }
    }

    /// Fault: the answer to HEAD of a path without a route had a body, which the client took for the next answer; and
    /// events for HTTP/1.0 were chunked, which it does not know.
    @Test func theAnswerFitsTheRequest() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/ready")
            func answer(_ requests: String) async throws -> String {
                // Ends when the other side has closed.
                let script = "exec 3<>/dev/tcp/127.0.0.1/\(server.port); printf '\(requests)' >&3; timeout 20 cat <&3"
                return await (try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])).ending().output
            }
            for path in ["/else", "/favicon.ico", "/image/", "/api/v1/nope", "/api/v1/queue", "/live"] {
                let host = "Host: localhost\\r\\n"
                let last = "GET /live HTTP/1.1\\r\\n\(host)Connection: close\\r\\n\\r\\n"
                let text = try await answer("HEAD \(path) HTTP/1.1\\r\\n\(host)\\r\\n\(last)")
                let parts = text.components(separatedBy: "\r\n\r\n")
                #expect(parts.count == 3 && parts[1].hasPrefix("HTTP/1.1 200") && parts[2] == "live\n", "\(text)")
                #expect(parts[1].contains("\r\nConnection: close"), "\(text)")
                let length = try #require(parts[0].firstMatch(of: /(?i)content-length: (\d+)/), "\(text)")
                #expect(length.output.1 != "0" && !parts[0].contains("close"), "\(text)")
            }
            let kept = "Connection: keep-alive\\r\\n"
            let live = try await answer("GET /live HTTP/1.0\\r\\n\(kept)\\r\\nGET /live HTTP/1.0\\r\\n\\r\\n")
            #expect(live.components(separatedBy: "live\n").count == 3 && live.contains("keep-alive"), "\(live)")
            let events = try ProgramUnderTest(
                program: "/usr/bin/curl",
                arguments: [
                    "--http1.0", "--silent", "--no-buffer", "--include", "--max-time", "60", "--header",
                    "Connection: keep-alive", "http://127.0.0.1:\(server.port)/api/v1/dashboard/events",
                ]
            )
            try await events.waitForOutput { $0.contains("data: {") }
            #expect(!events.output.lowercased().contains("transfer-encoding"), "\(events.output)")
            events.send(SIGKILL)
            _ = await events.ending()
            await server.end()
        }
    }

    @Test func tokensAreReadAgain() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let path = try Self.tokens([("old", "read")], in: directory)
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--tokens", path])
            try await server.wait(for: 200, at: "/api/v1/queue", token: Self.token("old"))
            _ = try Self.tokens([("new", "read")], in: directory)
            server.process.send(SIGHUP)
            try await server.process.waitForErrors { $0.contains("the tokens were read again") }
            try await server.wait(for: 200, at: "/api/v1/queue", token: Self.token("new"))
            #expect(try await server.ask("/api/v1/queue", token: Self.token("old")).status == 401)
            // A fault leaves the tokens valid; nothing but the change of the mode shows it.
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            try await server.process.waitForErrors { $0.contains("chmod 600") }
            #expect(try await server.ask("/api/v1/queue", token: Self.token("new")).status == 200)
            #expect(!server.process.errors.contains(Self.token("new")))
            await server.end()
        }
    }

    @Test func anOpenServerIsForThisMachine() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/api/v1/queue")
            let page = ["Host: example.org"]
            #expect(try await server.ask("/api/v1/queue", headers: page).status == 403)
            await server.end()
        }
    }

    @Test(arguments: [
        (["--open", "--listen", "0.0.0.0:0"], "loopback"), (["--open", "--listen", "[::]:0"], "loopback"),
        ([], "--tokens FILE"), (["--open", "--tokens", "a"], "exclude"),
        (["--open", "--listen", "80"], "--listen must"),
        (["--tokens", "/no/such.json"], "--tokens /no/such.json"),
        (["--open", "--metrics-listen", "80"], "--metrics-listen must"),
    ]) func otherOptionsAreRefused(_ arguments: [String], _ words: String) async throws {
        let process = try ProgramUnderTest.megaton(["serve", "--redis", "redis://127.0.0.1:1"] + arguments)
        let ending = await process.ending()
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
    }

    // MARK: - Start and end

    @Test func anAddressInUseIsAnErrorOfTheSystem() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--open"])
            for option in ["--listen", "--metrics-listen"] {
                let other = option == "--listen" ? [] : ["--listen", "127.0.0.1:0"]
                let arguments = ["serve", "--redis", redis.url, "--open", option, "127.0.0.1:\(server.port)"] + other
                let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
                #expect(ending.code == 71 && ending.errors.contains("\(option) 127.0.0.1"), "\(ending.errors)")
            }
            await server.end()
        }
    }

    @Test func aServerWaitsForRedisAndAnswersMeanwhile() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            await redis.crash()
            let server = try await Server(["--redis", redis.url, "--open"])
            #expect(try await server.ask("/live").status == 200)
            #expect(try await server.ask("/ready").status == 503)
            #expect(try await server.ask("/api/v1/queue").status == 503)
            try await redis.startAgain()
            try await server.wait(for: 200, at: "/ready")
            try await server.wait(for: 200, at: "/api/v1/queue")
            await server.end()
            let arguments = ["serve", "--listen", "127.0.0.1:0", "--open", "--wait-for-redis", "0"]
            let missing = try ProgramUnderTest.megaton(arguments + ["--redis", "unix:///nonexistent/redis.sock"])
            let ending = await missing.ending()
            #expect(ending.code == 69 && ending.errors.contains("/nonexistent/redis.sock"), "\(ending.errors)")
        }
    }

    /// A request whose body never ends keeps a server for 25 s after the first SIGTERM, and not after the second.
    @Test func aSecondSignalCutsRequestsOff() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await Server(["--redis", redis.url, "--open"])
            let head = #"POST /api/v1/dead/drop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"#
            let request = head + #"Content-Length: 9\r\n\r\n{"#
            let script = "exec 3<>/dev/tcp/127.0.0.1/\(server.port); printf '\(request)' >&3; echo sent; cat <&3"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            try await client.waitForOutput { $0.contains("sent") }
            server.process.send(SIGTERM)
            // No connection is accepted any more.
            while try await server.ask("/live").status != 0 { try Task.checkCancellation() }
            let start = ContinuousClock.now
            await server.end()
            #expect(ContinuousClock.now - start < .seconds(20))
            _ = await client.ending()
        }
    }

    // MARK: - Operators

    @Test func theQueueIsPausedAndResumed() async throws {
        try await withServer { (server, redis) async throws in
            let admin = Self.token("admin")
            let paused = try await server.ask("/api/v1/queue/pause", "POST", token: admin)
            #expect(paused.status == 200 && paused.object["brakes"] as? [String] == ["paused"], "\(paused.body)")
            #expect(try await megaton(["status"], redis).output.contains("paused"))
            let drained = try await server.ask("/api/v1/queue/drain", "POST", token: admin)
            #expect(drained.object["brakes"] as? [String] == ["drain", "paused"], "\(drained.body)")
            let resumed = try await server.ask("/api/v1/queue/resume", "POST", token: admin)
            #expect(resumed.object["brakes"] as? [String] == [], "\(resumed.body)")
            let status = try await megaton(["status"], redis).output
            #expect(!status.contains("paused"), "\(status)")
            // The log says who has changed the queue.
            let lines = server.process.errors.split(separator: "\n").filter { $0.contains("the queue was changed") }
            #expect(lines.count == 3 && lines.allSatisfy { $0.contains("token=admin") }, "\(lines)")
            let hosts = try await server.ask("/api/v1/hosts", token: Self.token("read"))
            #expect(hosts.status == 200 && hosts.object["restricted_count"] as? Int == 0, "\(hosts.body)")
        }
    }

    @Test func theDeadAreListedRequeuedAndDropped() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let isThere = Switch()
        try await OriginServer.run(answer: { _ in isThere.isSet ? .image(image) : .init(status: 404) }) { origin in
            try await withServer { (server, redis) async throws in
                let client = redis.client()
                defer { client.close() }
                let processes = [
                    try ProgramUnderTest.megaton(["coordinator", "--redis", redis.url]),
                    try ProgramUnderTest.megaton(["worker", "--allow-private", "--redis", redis.url]),
                ]
                for id in ["a", "b", "drop"] {
                    let url = origin.url("/\(id).png").absoluteString
                    let job = #"{"id":"\#(id)","source":"\#(url)"}"#
                    try await client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
                }
                try await count("failed", is: 3, redis)
                let (read, admin) = (Self.token("read"), Self.token("admin"))
                let workers = try await server.ask("/api/v1/workers", token: read)
                #expect(workers.object["living"] as? Int == 1, "\(workers.body)")

                // The pages of the list have all jobs once.
                var (ids, cursor): ([String], String?) = ([], "0")
                while let position = cursor {
                    let page = try await server.ask("/api/v1/dead?limit=2&cursor=\(position)", token: read)
                    #expect(page.object["total"] as? Int == 3, "\(page.body)")
                    let jobs = page.object["dead"] as? [[String: Any]] ?? []
                    ids += jobs.compactMap { $0["id"] as? String }
                    cursor = page.object["next"] as? String
                }
                #expect(ids.sorted() == ["a", "b", "drop"])
                let none = try await server.ask("/api/v1/dead?error=timed_out", token: read)
                #expect((none.object["dead"] as? [Any])?.isEmpty == true, "\(none.body)")
                // The last id is the name of another route, too.
                for id in ids {
                    let shown = try await server.ask("/api/v1/dead/\(id)", token: read)
                    #expect(shown.status == 200 && shown.body.contains("not_found"), "\(shown.body)")
                    #expect(shown.body.contains("\"request\""))
                }
                #expect(try await server.ask("/api/v1/dead/nobody", token: read).status == 404)

                isThere.set()
                func change(_ word: String, _ body: String) async throws -> Answer {
                    try await server.ask("/api/v1/dead/\(word)", "POST", token: admin, body: body)
                }
                #expect(try await change("requeue", "{}").status == 400)
                let missing = try await change("requeue", #"{"ids":["nobody"]}"#)
                #expect(missing.status == 404 && missing.detail.contains("nobody"), "\(missing.body)")
                let requeued = try await change("requeue", #"{"ids":["a","nobody"]}"#)
                #expect(requeued.object["requeued"] as? Int == 1, "\(requeued.body)")
                #expect(requeued.object["missing"] as? [String] == ["nobody"], "\(requeued.body)")
                try await count("done", is: 1, redis)
                let dropped = try await change("drop", #"{"ids":["drop"]}"#)
                #expect(dropped.object["dropped"] as? Int == 1, "\(dropped.body)")
                let rest = try await change("requeue", #"{"error":"not_found"}"#)
                #expect(rest.object["requeued"] as? Int == 1, "\(rest.body)")
                try await count("done", is: 2, redis)
                #expect(try await change("drop", #"{"all":true}"#).status == 404)

                // The originals of the two jobs are in the cache, perhaps a moment after the end of the jobs. Each
                // question takes a process, so this is no busy loop; the suite's time limit bounds it.
                let purge = #"{"hosts":["127.0.0.1"],"dry_run":true}"#
                while true {
                    let purged = try await server.ask("/api/v1/cache/purge", "POST", token: admin, body: purge)
                    #expect(purged.status == 200, "\(purged.body)")
                    if purged.object["originals"] as? Int == 2 { break }
                    try Task.checkCancellation()
                }
                for process in processes { process.send(SIGTERM) }
                for process in processes { #expect(await process.ending().code == 0, "\(process.errors)") }
            }
        }
    }

    private func count(_ field: String, is number: Int, _ redis: RedisServerProcess) async throws {
        try await redis.wait(forChangesOf: ["megaton:{default}:2:stat"]) { client in
            try await client.send(["HGET", "megaton:{default}:2:stat", .string(field)]).int == number
        }
    }

    @Test func aBodyOfAnotherTypeOrSizeIsRefused() async throws {
        try await withServer { (server, _) async throws in
            let admin = Self.token("admin")
            let path = "/api/v1/dead/drop"
            #expect(try await server.ask(path, "POST", token: admin).status == 415)
            let directory = try TestDirectory()
            defer { directory.remove() }
            let large = #"{"error":"\#(String(repeating: "a", count: 300_000))"}"#
            // In a file, as an argument of a program has at most 128 KiB.
            let body = try directory.write(Data(large.utf8), to: "body")
            let answer = try await server.ask(path, "POST", token: admin, body: "@\(body)")
            #expect(answer.status == 413, "\(answer.body)")
        }
    }

    // MARK: - Metrics and the document

    @Test func metricsNeedATokenAndHaveAListenerWithoutOne() async throws {
        let port = try FreePort.find()
        try await withServer(["--metrics-listen", "127.0.0.1:\(port)"]) { (server, _) async throws in
            #expect(try await server.ask("/metrics").status == 401)
            #expect(try await server.ask("/metrics", token: Self.token("submit")).status == 403)
            let own = try await server.ask("/metrics", token: Self.token("read"))
            #expect(own.status == 200 && own.body.contains("\nmegaton_cluster_up 1"), "\(own.body)")
            #expect(own.body.contains("role=\"serve\"") && own.body.contains("megaton_redis_commands_total{"))
            for status in [401, 403] {
                let line = #"megaton_http_requests_total{route="/metrics",method="GET",status="\#(status)"} 1"#
                #expect(own.body.contains("\n\(line)\n"), "\(own.body)")
            }
            let arguments = ["--silent", "--max-time", "20", "http://127.0.0.1:\(port)/metrics"]
            let curl = try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments)
            #expect(await curl.ending().output.contains("\nmegaton_cluster_up 1"))
        }
    }

    @Test func theDocumentHasRoutesThatExist() async throws {
        try await withServer { (server, _) async throws in
            let admin = Self.token("admin")
            let document = try await server.ask("/api/v1/openapi.json", token: Self.token("read"))
            #expect(document.object["openapi"] as? String == "3.1.0")
            let paths = try #require(document.object["paths"] as? [String: [String: Any]])
            #expect(paths.count > 20)
            // This one has events for as long as the client wants them.
            for (template, item) in paths where template != "/api/v1/dashboard/events" {
                let path = template.replacing(/\{[^}]*\}/, with: "x")
                for method in ["get", "post"] where item[method] != nil {
                    let answer = try await server.ask(path, method.uppercased(), token: admin)
                    #expect(answer.status > 0 && !answer.detail.contains("There is no route"), "\(method) \(path)")
                    #expect(answer.status != 500, "\(method) \(path): \(answer.body)")
                }
            }
        }
    }
}
