import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// The dashboard of `megaton serve` in a browser, with real jobs.
@Suite(.timeLimit(.minutes(4))) struct DashboardTests {
    /// A page as its reader sees it.
    private struct Page: Decodable {
        let text: String
        /// Width of its content, pixels.
        let width: Int
        /// Messages of the page and of the browser about it.
        let problems: [String]
        /// The step whose condition never became true.
        let step: String?
    }

    /// Opens the page of a server, and takes steps as `Tests/Browser/page.py` describes them.
    private func page(_ server: ServeTests.Server, width: Int = 1200, _ steps: String...) async throws -> Page {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let script = "\(Repository.root)/Tests/Browser/page.py"
        let browser = try ProgramUnderTest(
            program: "/usr/bin/python3",
            arguments: [script, "http://127.0.0.1:\(server.port)/", directory.path, "\(width)"] + steps
        )
        let ending = await browser.ending()
        let data = Data(ending.output.utf8)
        let page = try #require(try? JSONDecoder().decode(Page.self, from: data), "\(ending.output) \(ending.errors)")
        #expect(page.step == nil, "\(page.text) \(page.problems)")
        return page
    }

    /// A step that waits until the reader sees all of these texts, which have no quotation marks.
    private func sees(_ texts: String...) -> String {
        "wait:document.body && "
            + texts.map { "document.body.innerText.includes('\($0)')" }.joined(separator: " && ")
    }

    @Test func aReaderSeesTheClusterAndRequeues() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let isThere = Switch()
        try await OriginServer.run(
            answer: { isThere.isSet || $0.hasPrefix("/good") ? .image(image) : .init(status: 404) }
        ) { origin in
            try await RedisServerProcess.run { (redis) async throws in
                let server = try await ServeTests.Server(["--redis", redis.url, "--open"])
                try await server.wait(for: 200, at: "/ready")
                let processes = [
                    try ProgramUnderTest.megaton(["coordinator", "--redis", redis.url]),
                    try ProgramUnderTest.megaton(["worker", "--allow-private", "--redis", redis.url]),
                ]
                let lines = ["good1", "good2", "missing"].map { name in
                    #"{"id":"\#(name)","source":"\#(origin.url("/\(name).png").absoluteString)"}"#
                }
                let submitted = try await server.ask(
                    "/api/v1/batches?name=spring",
                    "POST",
                    body: lines.joined(separator: "\n"),
                    type: "application/x-ndjson"
                )
                #expect(submitted.status == 201, "\(submitted.body)")
                // A source is only text.
                let client = redis.client()
                defer { client.close() }
                let odd = #"{"id":"odd","source":"javascript:<img src=x onerror=document.title='hit'>"}"#
                try await client.send(["LPUSH", "megaton:{default}:jobs", .string(odd)])

                let open = "run:for (const details of document.querySelectorAll('details')) details.open = true"
                let all = try await page(
                    server,
                    width: 360,
                    sees("2 jobs failed for good", "3 of 3 jobs", "1 worker and", "waits for jobs", "queue is empty"),
                    open,
                    sees("/missing.png")
                )
                for words in [
                    "Live", "spring", "finished", "not_found: 1 job", "<img src=x onerror",
                    "No host is limited, and no circuit breaker is open.", "Jobs that ended, a second",
                    "The queue is empty: all jobs have ended.", "Servers of the shared cache",
                ] {
                    #expect(all.text.contains(words), "\(words) in \(all.text)")
                }
                #expect(!all.text.contains("A token is needed"))
                #expect(all.width <= 360 && all.problems.isEmpty, "\(all.width) \(all.problems)")

                isThere.set()
                let press = """
                    run:[...document.querySelectorAll('button')]
                        .find(button => button.textContent === 'Requeue all jobs with not_found').click()
                    """
                _ = try await page(
                    server,
                    sees("2 jobs failed for good"),
                    press,
                    sees("1 job of 1 requeued: all jobs with not_found", "1 job failed for good")
                )
                for process in processes { process.send(SIGTERM) }
                for process in processes { #expect(await process.ending().code == 0, "\(process.errors)") }
                await server.end()
            }
        }
    }

    @Test func emptyAndBrokenStatesHaveWords() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await ServeTests.Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/ready")
            let empty = try await page(server, sees("No job was ever pushed to this queue"))
            for words in ["No worker has signed on", "There is no batch.", "No job is dead.", "was not asked yet"] {
                #expect(empty.text.contains(words), "\(words) in \(empty.text)")
            }
            #expect(empty.problems.isEmpty, "\(empty.problems)")
            #expect(try await server.ask("/api/v1/queue/pause", "POST").status == 200)
            let client = redis.client()
            defer { client.close() }
            try await client.send(["LPUSH", "megaton:{default}:jobs", #"{"source":"data:,a"}"#])
            _ = try await page(
                server,
                sees(
                    "The queue is paused",
                    "No coordinator leads the queue",
                    "No worker has signed on, so that jobs wait"
                )
            )
            await redis.crash()
            // The server may have answered this page with the last state first.
            _ = try await page(server, sees("Redis does not answer", "The page goes on as soon as it"))
            await server.end()
        }
    }

    /// A worker without heartbeats, a host that fails, a poisoned image and a full cache are at the top of the page.
    @Test func anOperatorSeesFaultsFirst() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await ServeTests.Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/ready")
            let client = redis.client()
            defer { client.close() }
            let now = Int(Date().timeIntervalSince1970 * 1000)
            let prefix = "megaton:{default}:2"
            let reason = "timeout:+the+host+sent+no+answer+within+10+s"
            let state = RedisArgument.string("0 \(now) 1 0 9 \(now + 600_000) 0 200000 0 0 0 1 \(reason)")
            let letter = #"{"code":"poison","message":"killed","attempts":3,"job":"{}"}"#
            try await client.send(["ZADD", .string("\(prefix):workers"), .int(now - 60_000), "gone:1:a"])
            try await client.send(["HSET", .string("\(prefix):rate"), "failing.test:443", state])
            try await client.send(["ZADD", .string("\(prefix):dead"), .int(now), "p1"])
            try await client.send(["HSET", .string("\(prefix):deadinfo"), "p1", .string(letter)])
            #expect(try await server.ask("/api/v1/queue/pause", "POST").status == 200)
            try await client.send(["CONFIG", "SET", "maxmemory", "500kb"])
            let page = try await page(
                server,
                width: 360,
                sees(
                    "The queue is paused: no worker claims a job",
                    "1 worker sent no heartbeat lately: gone:1:a",
                    "1 host failed too often and gets probes only: failing.test:443",
                    "timeout: the host sent no answer within 10 s",
                    "1 dead job killed the processes of workers",
                    "The shared cache is full and refuses new entries"
                )
            )
            #expect(page.problems.isEmpty && page.width <= 360, "\(page.width) \(page.problems)")
            await server.end()
        }
    }

    /// Fault: jobs of a paused queue seemed to be stuck, and its workers to have nothing to do.
    @Test(arguments: [("pause", "the queue is paused"), ("drain", "the queue drains")])
    func aQueueThatStandsStillIsTheReasonForWaiting(_ action: String, _ reason: String) async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await ServeTests.Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/ready")
            let client = redis.client()
            defer { client.close() }
            let now = Int(Date().timeIntervalSince1970 * 1000)
            try await client.send(["ZADD", "megaton:{default}:2:workers", .int(now + 60_000), "idle:1:b"])
            #expect(try await server.ask("/api/v1/queue/\(action)", "POST").status == 200)
            let line = #"{"source":"data:,a"}"#
            let name = "/api/v1/batches?name=spring"
            let submitted = try await server.ask(name, "POST", body: line, type: "application/x-ndjson")
            #expect(submitted.status == 201, "\(submitted.body)")
            let cells = "[...document.querySelectorAll('td')]"
            let has = { (text: String) in "\(cells).some(cell => cell.innerText === '\(text)')" }
            let page = try await page(server, "wait:\(has(reason)) && \(has("waits: \(reason)"))")
            #expect(page.problems.isEmpty, "\(page.problems)")
            // Jobs that a draining queue has admitted go on, and their batch has its estimate.
            try await client.send(["ZADD", "megaton:{default}:2:lease", .int(now + 60_000), "admitted"])
            let goesOn = "wait:!\(has(reason)) && \(has("waits for jobs"))"
            if action == "drain" { _ = try await self.page(server, goesOn) }
            await server.end()
        }
    }

    /// The memory of a cache that evicts nothing moves around its limit, and the notice must not come and go with it:
    /// it is there on both sides of the limit, and goes only when there is room.
    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func anOperatorSeesACacheThatIsNearlyFull() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await ServeTests.Server(["--redis", redis.url, "--open"])
            try await server.wait(for: 200, at: "/ready")
            let client = redis.client()
            defer { client.close() }
            // So large that the buffers of connections, which come and go, are less than a hundredth of it.
            try await client.send(["SETRANGE", "filler", .int(64 << 20), "x"])
            let info = try #require(try await client.send(["INFO", "memory"]).string)
            let used = try #require(
                info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("used_memory:") }
                    .flatMap { Int($0.dropFirst("used_memory:".count)) }
            )
            for (limit, words) in [
                (used * 1000 / 985, "The shared cache is nearly full and evicts nothing: \(redis.url)"),
                (used * 985 / 1000, "The shared cache is full and refuses new entries: \(redis.url)"),
                (used * 1000 / 985, "The shared cache is nearly full and evicts nothing: \(redis.url)"),
            ] {
                try await client.send(["CONFIG", "SET", "maxmemory", .int(limit)])
                let page = try await page(server, sees(words))
                #expect(page.problems.isEmpty, "\(page.problems)")
            }
            try await client.send(["CONFIG", "SET", "maxmemory", .int(used * 2)])
            let roomy = sees(" MiB of ") + " && !document.body.innerText.includes('full')"
            #expect(try await page(server, roomy).problems.isEmpty)
            await server.end()
        }
    }

    @Test func aTokenIsAskedForAndSentInAHeader() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let path = try ServeTests.tokens([("read", "read"), ("submit", "submit")], in: directory)
        try await RedisServerProcess.run { (redis) async throws in
            let server = try await ServeTests.Server(["--redis", redis.url, "--tokens", path])
            try await server.wait(for: 200, at: "/ready")
            #expect(try await server.ask("/").body.contains("<title>Megaton dashboard</title>"))
            #expect(try await server.ask("/api/v1/dashboard").status == 401)
            #expect(try await server.ask("/api/v1/dashboard/events").status == 401)
            let submit = ServeTests.token("submit")
            #expect(try await server.ask("/api/v1/dashboard/events", token: submit).status == 403)
            let enter = { (token: String) in
                "run:document.getElementById('token').value = '\(token)'; "
                    + "document.querySelector('#token-form button').click()"
            }
            let read = ServeTests.token("read")
            let page = try await page(
                server,
                sees("A token is needed"),
                enter(ServeTests.token("wrong")),
                sees("The token was refused: The token is not valid"),
                enter(submit),
                sees("The token was refused: The token lacks the scope read"),
                enter(read),
                sees("Live", "No job was ever pushed to this queue"),
                "wait:sessionStorage.getItem('megaton-token') === '\(read)' && !location.href.includes('0123')"
            )
            #expect(page.text.contains("Forget the token") && !page.text.contains("A token is needed"))
            await server.end()
        }
    }
}
