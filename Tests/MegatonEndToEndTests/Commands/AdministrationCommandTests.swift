import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// `megaton dead`, `megaton batch`, `megaton queue` and `--retry-failed`, as typed by users.
@Suite(.timeLimit(.minutes(3))) struct AdministrationCommandTests {
    /// Runs the body with a coordinator and a worker on the test's own Redis.
    private func withCluster(
        _ body: (RedisServerProcess, TestDirectory, RedisClient) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let client = server.client()
            defer { client.close() }
            let processes = [
                try ProgramUnderTest.megaton(["coordinator", "--redis", server.url]),
                try ProgramUnderTest.megaton([
                    "worker", "--allow-private", "--allow-root", directory.path, "--redis", server.url,
                ]),
            ]
            try await body(server, directory, client)
            for process in processes { process.send(SIGTERM) }
            for process in processes { #expect(await process.ending().code == 0, "\(process.errors)") }
        }
    }

    private func megaton(_ arguments: [String], _ server: RedisServerProcess) async throws -> ProgramUnderTest.Ending {
        await (try ProgramUnderTest.megaton(arguments + ["--redis", server.url])).ending()
    }

    private func push(_ id: String, _ url: URL, _ client: RedisClient) async throws {
        let job = #"{"id":"\#(id)","source":"\#(url.absoluteString)"}"#
        try await client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
    }

    private func count(_ field: String, is number: Int, _ server: RedisServerProcess) async throws {
        try await server.wait(forChangesOf: ["megaton:{default}:2:stat"]) { client in
            try await client.send(["HGET", "megaton:{default}:2:stat", .string(field)]).int == number
        }
    }

    @Test func theDeadAreShownRequeuedAndDropped() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let isThere = Switch()
        try await OriginServer.run(answer: { _ in isThere.isSet ? .image(image) : .init(status: 404) }) { origin in
            try await withCluster { (server, _, client) async throws in
                for id in ["a", "b", "c"] { try await push(id, origin.url("/\(id).png"), client) }
                try await count("failed", is: 3, server)
                let list = try await megaton(["dead", "list"], server)
                #expect(list.code == 0 && list.output.contains("not_found"), "\(list.output)\(list.errors)")
                #expect(list.output.split(separator: "\n").count == 3)
                let shown = try await megaton(["dead", "show", "a"], server)
                for word in ["not_found", "404", "\"attempts\" : 1", "\"died\"", "\"worker\""] {
                    #expect(shown.output.contains(word), "\(word) in \(shown.output)")
                }
                #expect(try await megaton(["dead", "show", "nobody"], server).code == 1)
                #expect(try await megaton(["dead", "requeue"], server).code == 64)
                isThere.set()
                // The 404 is cached, and yet the origin is asked again.
                let requeue = try await megaton(["dead", "requeue", "a"], server)
                #expect(requeue.output.contains("1 of 1"), "\(requeue.output)\(requeue.errors)")
                try await count("done", is: 1, server)
                #expect(
                    try await megaton(["dead", "requeue", "--error", "not_found"], server).output.contains("2 of 2")
                )
                try await count("done", is: 3, server)
                #expect(try await megaton(["dead", "list"], server).output.contains("no dead jobs"))
                try await client.send(["LPUSH", "megaton:{default}:jobs", "{"])
                try await count("failed", is: 4, server)
                let unsure = try await megaton(["dead", "drop", "--all"], server)
                #expect(unsure.code == 64 && unsure.errors.contains("1 dead job "), "\(unsure.errors)")
                #expect(unsure.errors.contains("--yes"))
                let drop = try await megaton(["dead", "drop", "--all", "--yes"], server)
                #expect(drop.output.contains("1 dead job dropped"), "\(drop.output)\(drop.errors)")
            }
        }
    }

    /// Fault: the batch stayed open forever.
    @Test func aSubmitThatIsInterruptedCancelsWhatItHasPushed() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let list = directory.path + "/list.txt"
            try #require(mkfifo(list, 0o600) == 0)
            // Opened for reading and writing, so that the list has no end.
            let pipe = open(list, O_RDWR | O_CLOEXEC)
            defer { close(pipe) }
            let line = Array("https://example.org/a.png\n".utf8)
            let written = write(pipe, line, line.count)
            try #require(written == line.count)
            let run = try ProgramUnderTest.megaton(["submit", list, "--batch", "b", "--redis", server.url])
            try await server.wait(forChangesOf: ["megaton:{default}:2:jobs:b"]) { client in
                try await client.send(["LLEN", "megaton:{default}:2:jobs:b"]).int == 1
            }
            run.send(SIGINT)
            let ending = await run.ending()
            #expect(
                ending.code == 130 && ending.errors.contains("the submitted jobs were cancelled"),
                "\(ending.errors)"
            )
            let client = server.client()
            defer { client.close() }
            #expect(try await client.send(["SISMEMBER", "megaton:{default}:2:cancelled", "b"]).int == 1)
        }
    }

    @Test func listsSayWhereTheyEndAndFiltersWhatTheyMissed() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let letter = #"{"code":"not_found","message":"404","attempts":1,"job":"{\"source\":\"data:,x\"}"}"#
            for id in 0..<7 {
                try await client.send(["ZADD", "megaton:{default}:2:dead", .int(1_700_000_000_000 + id), .int(id)])
                try await client.send(["HSET", "megaton:{default}:2:deadinfo", .int(id), .string(letter)])
            }
            let short = try await megaton(["dead", "list", "--limit", "5"], server)
            #expect(short.output.split(separator: "\n").count == 5)
            #expect(short.errors.contains("5 of 7 dead jobs"), "\(short.errors)")
            #expect(try await megaton(["dead", "list", "--limit", "7"], server).errors.isEmpty)
            for command in ["requeue", "drop"] {
                let missed = try await megaton(["dead", command, "--error", "nonsense"], server)
                #expect(missed.code == 1 && missed.errors.contains("nonsense"), "\(missed.errors)")
            }
            for command in ["requeue", "drop"] {
                let missed = try await megaton(["dead", command, "nobody", "no-one"], server)
                #expect(missed.code == 1 && missed.errors.contains("has the ids no-one, nobody;"), "\(missed.errors)")
            }
            // Fault: a requeue of no job ended with 0.
            try await client.send(["HSET", "megaton:{default}:2:deadinfo", "6", #"{"code":"x","job":"{"}"#])
            let none = try await megaton(["dead", "requeue", "6"], server)
            #expect(none.code == 1 && none.output.contains("0 of 1 dead job requeued"), "\(none.output)")
            #expect(none.errors.contains("cannot be requeued"), "\(none.errors)")
            let shown = try await megaton(["dead", "show", "3"], server)
            let object = try JSONSerialization.jsonObject(with: Data(shown.output.utf8)) as? [String: Any]
            #expect(object?["died_at"] as? String == "2023-11-14T22:13:20Z")
            #expect((object?["request"] as? [String: Any])?["source"] as? String == "data:,x")
        }
    }

    /// Fault: the message was the bare WRONGTYPE of Redis, which does not name the key.
    @Test func aKeyOfAnotherTypeIsNamedByEachCommand() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            try await client.send(["SET", "megaton:{default}:2:dead", "x"])
            let sentence = "megaton:{default}:2:dead is of the type string and must be of the type zset"
            let dead = try await megaton(["dead", "list"], server)
            #expect(dead.code == 69 && dead.errors.contains("\(sentence): another program"), "\(dead.errors)")
            #expect(dead.errors.contains("WRONGTYPE") && dead.errors.contains("megaton doctor says"), "\(dead.errors)")
            // Fault: one such key hid the whole state.
            let epoch = RedisArgument.string("megaton:{default}:2:epoch")
            try await client.send(["RPUSH", epoch, "x"])
            try await client.send(["LPUSH", "megaton:{default}:jobs", "{}", "{}"])
            let status = try await megaton(["status", "--json"], server)
            #expect(status.code == 0 && status.errors.contains(sentence), "\(status.errors)")
            let state = try JSONSerialization.jsonObject(with: Data(status.output.utf8)) as? [String: Any]
            #expect(state?["intake"] as? Int == 2 && (state?["damaged_keys"] as? [Any])?.count == 2, "\(status.output)")
            try await client.send(["DEL", epoch])
            // The push succeeds, as it does not need the key.
            let url = "https://example.org/a.png"
            let submit = try await megaton(["submit", url, "--batch", "new"], server)
            #expect(submit.code == 0 && submit.errors.contains("may fail or wait: \(sentence)"), "\(submit.errors)")
            try await client.send(["SET", "megaton:{default}:2:batch:hit", "x"])
            let hit = try await megaton(["submit", url, "--batch", "hit"], server)
            #expect(hit.code == 69 && hit.errors.contains("2:batch:hit is of the type string"), "\(hit.errors)")
            try await client.send(["ZADD", "megaton:{default}:2:batches", "1", "b"])
            try await client.send(["SET", "megaton:{default}:2:batch:b", "x"])
            let list = try await megaton(["batch", "list"], server)
            #expect(list.code == 0 && list.errors.contains("its key megaton:{default}:2:batch:b"), "\(list.errors)")
            let doctor = try await megaton(["doctor"], server)
            for key in ["dead", "batch:b"] {
                #expect(doctor.output.contains("megaton:{default}:2:\(key) is of the type string"), "\(doctor.output)")
            }
        }
    }

    /// Fault: control characters for terminals were escaped in a way that no JSON parser could read.
    @Test func controlCharactersAreEscapedAsJSONDoesIt() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let letter = "{\"code\":\"not_found\",\"message\":\"a\u{202E}b\u{7F}c\",\"attempts\":1,\"job\":\"{}\"}"
            try await client.send(["ZADD", "megaton:{default}:2:dead", "1700000000000", "x"])
            try await client.send(["HSET", "megaton:{default}:2:deadinfo", "x", .string(letter)])
            for command in [["dead", "list", "--json"], ["dead", "show", "x"]] {
                let ending = try await megaton(command, server)
                #expect(ending.code == 0 && !ending.output.contains("\u{202E}"), "\(ending.errors)")
                let object = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
                let job = object?["job"] as? [String: Any]
                #expect(job?["message"] as? String == "a\u{202E}b\u{7F}c", "\(ending.output)")
            }
        }
    }

    @Test func aQueueThatNoProcessHasUsedIsNamed() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let status = try await megaton(["status", "--queue", "defalt"], server)
            #expect(status.code == 0 && status.errors.contains("\"defalt\""), "\(status.errors)")
            let lenient = try await megaton(["doctor", "--queue", "defalt"], server)
            #expect(lenient.code == 0 && lenient.output.contains("\"defalt\""), "\(lenient.output)")
            #expect(try await megaton(["doctor", "--strict"], server).code == 1)
        }
    }

    @Test func aRedisThatMayEvictJobsGetsNone() async throws {
        try await RedisServerProcess.run(.init(settings: ["maxmemory-policy allkeys-lru"])) { (server) async throws in
            let submit = try await megaton(["submit", "https://example.org/a.jpg"], server)
            #expect(submit.code == 64 && submit.errors.contains("noeviction"), "\(submit.errors)")
        }
    }

    @Test func aBatchIsListedShownWaitedForAndCancelled() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await withCluster { (server, directory, client) async throws in
                try await client.noteAnswer(of: origin)
                origin.hold()
                let urls = (0..<40).map { origin.url("/\($0).png").absoluteString }
                let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
                for name in ["one", "two"] {
                    #expect(try await megaton(["submit", list, "--batch", name], server).code == 0)
                }
                await origin.waitForRequests("/0.png", count: 1)
                let table = try await megaton(["batch", "list"], server)
                #expect(table.output.contains("one  running") && table.output.contains("two  running"))
                #expect(try await megaton(["batch", "wait", "one", "--timeout", "0"], server).code == 75)
                #expect(try await megaton(["batch", "cancel", "two"], server).code == 0)
                origin.release()
                let waited = try await megaton(["batch", "wait", "one"], server)
                #expect(waited.code == 0 && waited.output.contains("\"done\" : 40"), "\(waited.output)")
                let second = try await megaton(["batch", "wait", "two"], server)
                #expect(second.code == 2, "what was cancelled was not done")
                #expect(second.output.contains("finished") && !second.output.contains("\"cancelled\" : 0"))
                #expect(try await megaton(["batch", "show", "three"], server).code == 1)
            }
        }
    }

    /// Faults: a submission under a name that was taken got the other batch's result as its own, and cancelled that
    /// batch; by then it had also truncated the old ledger.
    @Test func aNameThatIsTakenIsRefusedAndNothingElseHappens() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await withCluster { (server, directory, _) async throws in
                let old = #"{"attempts":1,"source":"an-earlier-run.png","status":"done"}"# + "\n"
                let ledger = try directory.write(Data(old.utf8), to: "ledger.jsonl")
                let submit = ["submit", origin.url("/a.png").absoluteString, "--batch", "taken"]
                origin.hold()
                #expect(try await megaton(submit, server).code == 0)
                for round in 0..<4 {
                    let again = try await megaton(submit + ["--wait", "--ledger", ledger], server)
                    #expect(again.code == 64 && again.errors.contains("submitted before"), "\(again.errors)")
                    #expect(try String(contentsOfFile: ledger, encoding: .utf8) == old)
                    if round > 0 { continue }
                    origin.release()
                    let waited = try await megaton(["batch", "wait", "taken"], server)
                    #expect(waited.code == 0 && waited.output.contains("\"done\" : 1"), "\(waited.output)")
                }
            }
        }
    }

    @Test func theQueueIsPausedDrainedAndResumed() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await withCluster { (server, _, client) async throws in
                #expect(try await megaton(["queue", "pause"], server).code == 0)
                #expect(try await megaton(["status"], server).output.contains("pauses      paused"))
                try await push("a", origin.url("/a.png"), client)
                try await server.wait(forChangesOf: ["megaton:{default}:2:ready:normal"]) { client in
                    try await client.send(["LLEN", "megaton:{default}:2:ready:normal"]).int == 1
                }
                #expect(try await megaton(["queue", "drain"], server).output.contains("1 admitted job left"))
                #expect(try await megaton(["queue", "drain", "--wait", "--timeout", "0"], server).code == 75)
                #expect(origin.total == 0)
                #expect(try await megaton(["queue", "resume"], server).code == 0)
                try await count("done", is: 1, server)
                #expect(try await megaton(["queue", "drain", "--wait"], server).output.contains("drained"))
                #expect(try await megaton(["queue", "resume"], server).code == 0)
            }
        }
    }

    @Test func onlyWhatFailedIsDoneAgain() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let isThere = Switch()
        let cache = try TestDirectory()
        defer { cache.remove() }
        let environment = ["XDG_CACHE_HOME": cache.path]
        try await OriginServer.run(answer: { path in
            path.contains("late") && !isThere.isSet ? .init(status: 500) : .image(image)
        }) { (origin) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let urls = ["/1.png", "/late.png", "/3.png"].map { origin.url($0).absoluteString }
            let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            let out = directory.path + "/out"
            let first = try ProgramUnderTest.megaton(
                [
                    "run", list, "--output", out, "--allow-private", "--workers", "1", "--attempts", "1", "--size",
                    "16x16",
                ],
                environment: environment
            )
            #expect(await first.ending().code == 2)
            isThere.set()
            let ledger = out + "/megaton-ledger.jsonl"
            let same = try ProgramUnderTest.megaton(["run", "--retry-failed", ledger, "--ledger", ledger])
            #expect(await same.ending().code == 64)
            // A full disk truncates the last line.
            let torn = try FileHandle(forWritingTo: URL(fileURLWithPath: ledger))
            try torn.seekToEnd()
            try torn.write(contentsOf: Data(#"{"attempts":1,"id":"ru"#.utf8))
            try torn.close()
            let again = try ProgramUnderTest.megaton(
                ["run", "--retry-failed", ledger, "--allow-private", "--workers", "1", "--json"],
                environment: environment
            )
            let ending = await again.ending()
            #expect(ending.code == 0 && ending.errors.contains("not a complete line"), "\(ending.errors)")
            #expect(ending.output.contains("\"jobs\" : 1") && ending.output.contains("\"done\" : 1"))
            #expect(origin.count("/1.png") == 1 && origin.count("/late.png") == 2)
            #expect(
                directory.files.contains { $0.hasPrefix("out/") && $0.hasSuffix("late-16x16.jpg") },
                "\(directory.files)"
            )
            #expect(directory.files.contains("out/megaton-ledger.retry.jsonl"))
            let lines = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 4, "the old ledger stays as it was")
            let picture = try directory.write(image, to: "in/a.png")
            let mistyped = try ProgramUnderTest.megaton([
                "run", directory.path + "/in", "--output", out, "--ledger", picture,
            ])
            #expect(await mistyped.ending().code == 64)
            #expect(FileManager.default.contents(atPath: picture) == image, "a mistyped option costs no picture")
        }
    }

    @Test func aDeduplicatingRunDoesTheSameOnce() async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let cache = try TestDirectory()
        defer { cache.remove() }
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let directory = try TestDirectory()
            defer { directory.remove() }
            let urls = (0..<20).map { origin.url("/\($0 % 4).png").absoluteString }
            let list = try directory.write(Data(urls.joined(separator: "\n").utf8), to: "list.txt")
            let run = try ProgramUnderTest.megaton(
                [
                    "run", list, "--output", directory.path + "/out", "--allow-private", "--workers", "1",
                    "--deduplicate",
                    "--json",
                ],
                environment: ["XDG_CACHE_HOME": cache.path]
            )
            let ending = await run.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(ending.output.contains("\"done\" : 4") && ending.output.contains("\"deduplicated\" : 16"))
        }
    }
}
