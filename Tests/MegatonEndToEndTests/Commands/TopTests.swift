import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCLI
@testable import MegatonCluster
@testable import MegatonCommandLine

/// `megaton top`: on a terminal, elsewhere, and its text.
@Suite(.timeLimit(.minutes(2))) struct TopTests {
    private static let clear = "\u{1B}[J"

    // MARK: - On a terminal

    /// Starts the command with a terminal as standard input and output.
    private func start(_ terminal: PseudoTerminal, _ redis: RedisServerProcess, _ options: [String] = []) throws
        -> ProgramUnderTest
    {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let script = ["-c", #"t=$1; shift; exec "$@" <"$t" >"$t""#, "sh", terminal.path, program]
        return try ProgramUnderTest(
            program: "/bin/sh",
            arguments: script + ["top", "--redis", redis.url] + options,
            environment: ["TERM": "xterm", "MEGATON_CONFIG": "/dev/null"]
        )
    }

    /// The lines of the text that was drawn last.
    private func screen(_ text: String) -> [String] {
        let drawn = text.components(separatedBy: Self.clear).dropLast().last ?? ""
        let lines = drawn.components(separatedBy: "\u{1B}[H").last ?? ""
        return lines.components(separatedBy: "\u{1B}[K\r\n").map { $0.replacing("\u{1B}[K", with: "") }
    }

    @Test func aKeyEndsItAndTheWindowMayChange() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            try await client.send(["LPUSH", "megaton:{default}:jobs", #"{"source":"https://example.org/a.jpg"}"#])
            let terminal = try PseudoTerminal(columns: 80)
            // The interval does not end: a second text is drawn for the window.
            let top = try start(terminal, redis, ["--interval", "3600"])
            let first = screen(terminal.read(until: { $0.contains(Self.clear) }))
            #expect(first.first == "queue default   every 3600 s, q ends", "\(first)")
            #expect(first.contains { $0.contains("intake") } && first.allSatisfy { $0.count < 80 }, "\(first)")
            terminal.resize(rows: 5, columns: 30)
            top.send(SIGWINCH)
            let second = screen(terminal.read(until: { $0.contains(Self.clear) }))
            #expect(second.count == 5 && second.allSatisfy { $0.count < 30 }, "\(second)")
            // Ctrl-\ as a signal would leave the screen as it is.
            terminal.type("x\u{1C}")
            let ending = await top.ending()
            #expect(ending.code == 0 && ending.errors.isEmpty, "\(ending.errors)")
            let rest = terminal.read(until: { $0.contains("\u{1B}[?1049l") })
            #expect(rest.hasSuffix("\u{1B}[?25h\u{1B}[?1049l"), "the screen from before comes back")
        }
    }

    /// Redis hangs during a reading, and no call returns.
    @Test(arguments: [SIGINT, SIGTERM, 0]) func itEndsAtOnceAlsoIfRedisHangs(_ signal: Int32) async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            let terminal = try PseudoTerminal(columns: 80)
            let top = try start(terminal, redis, ["--interval", "0.1"])
            terminal.read(until: { $0.components(separatedBy: Self.clear).count > 3 })
            try await client.send(["CLIENT", "PAUSE", "60000", "ALL"])
            let began = ContinuousClock.now
            if signal == 0 { terminal.type("q") } else { top.send(signal) }
            let ending = await top.ending()
            #expect(ending.code == 0 && ContinuousClock.now - began < .seconds(10), "\(ending.errors)")
        }
    }

    @Test func olderNumbersAreShownWhileRedisIsAway() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let terminal = try PseudoTerminal(columns: 80)
            let top = try start(terminal, redis, ["--interval", "0.1"])
            terminal.read(until: { $0.contains(Self.clear) })
            await redis.crash()
            // The warning comes first, and the rest of the screen may be read later.
            let text = terminal.read(until: { $0.contains(/! the numbers are(?s).*intake/) })
            #expect(text.contains(/! the numbers are(?s).*intake/))
            try await redis.startAgain()
            let later = terminal.read(until: { text in
                text.components(separatedBy: Self.clear).dropLast().contains {
                    $0.hasPrefix("\u{1B}[H") && !$0.contains("! the numbers are")
                }
            })
            #expect(later.contains("intake"))
            terminal.type("q")
            #expect(await top.ending().code == 0)
        }
    }

    // MARK: - Elsewhere

    @Test func aSnapshotHasTheQueueRatesAndFailures() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let coordinator = try ProgramUnderTest.megaton(["coordinator", "--redis", redis.url])
            let client = redis.client()
            defer { client.close() }
            let jobs = #"{"source":"https://example.org/a.jpg","priority":5}"#
            try await client.send(["LPUSH", "megaton:{default}:jobs", .string(jobs)])
            try await redis.wait(forChangesOf: ["megaton:{default}:2:stat"]) { client in
                try await client.send(["HGET", "megaton:{default}:2:stat", "failed"]).int == 1
            }
            try await client.send(["HSET", "megaton:{default}:2:stat:hosts", "example.org", "7"])
            func top(_ options: [String]) async throws -> ProgramUnderTest.Ending {
                let arguments = ["top", "--redis", redis.url, "--interval", "0.1"] + options
                return await (try ProgramUnderTest.megaton(arguments)).ending()
            }
            let ending = try await top(["--once", "--json"])
            let parsed = try JSONSerialization.jsonObject(with: Data(ending.output.utf8))
            let json = try #require(parsed as? [String: Any], "\(ending.output)")
            let queue = try #require(json["queue"] as? [String: Any])
            #expect(queue["failed"] as? Int == 1 && queue["dead"] as? Int == 1 && queue["ready_by_priority"] != nil)
            let rates = try #require(json["rates"] as? [String: Any])
            #expect(rates["done"] as? Double == 0 && rates["origin_fetches"] as? Double == 0, "\(rates)")
            #expect(try #require(rates["seconds"] as? Double) >= 0.1)
            let failures = try #require(json["failures"] as? [[String: Any]])
            #expect(failures.count == 1 && failures[0]["code"] as? String == "invalid_job", "\(failures)")
            #expect(failures[0]["source"] as? String == "https://example.org/a.jpg", "\(failures)")
            let hosts = try #require(json["hosts"] as? [[String: Any]])
            #expect(hosts.count == 1 && hosts[0]["fetches"] as? Int == 7, "\(hosts)")

            // A file is no terminal.
            let text = try await top([]).output
            #expect(!text.contains("\u{1B}") && text.contains("invalid_job") && text.contains("done/s"), "\(text)")
            #expect(text.split(separator: "\n").allSatisfy { $0.count < 80 }, "\(text)")
            coordinator.send(SIGTERM)
            #expect(await coordinator.ending().code == 0)
        }
    }

    @Test func itReadsNoKeyOfTheCache() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            try await RedisServerProcess.run { (cache) async throws in
                let client = cache.client()
                defer { client.close() }
                try await client.send(["CONFIG", "RESETSTAT"])
                let arguments =
                    ["top", "--once", "--interval", "0.1", "--redis", redis.url]
                    + ["--cache-redis", cache.url]
                let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
                #expect(ending.code == 0 && !ending.output.contains("unreachable"), "\(ending.errors)\(ending.output)")
                let calls = try await client.send(["INFO", "commandstats"]).string ?? ""
                #expect(!calls.isEmpty)
                for command in ["scan", "get", "hget", "hgetall", "memory", "keys", "object"] {
                    #expect(!calls.contains("cmdstat_\(command):"), "\(calls)")
                }
            }
        }
    }

    // Fault: jobs went on without the cache, and nothing but the log of their ends showed that.
    @Test func aCacheThatRefusesThePasswordIsShown() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            try await RedisServerProcess.run(.init(settings: ["requirepass secret"])) { (cache) async throws in
                let servers = ["--redis", redis.url, "--cache-redis", cache.url]
                for command in [["top", "--once", "--interval", "0.1"], ["status"]] {
                    let ending = await (try ProgramUnderTest.megaton(command + servers)).ending()
                    #expect(ending.code == 0 && ending.output.contains("cannot be used"), "\(ending.output)")
                    #expect(ending.output.contains("NOAUTH"), "\(ending.output)")
                }
                let worker = try ProgramUnderTest.megaton(["worker"] + servers)
                try await worker.waitForErrors { $0.contains("the shared cache refuses this worker") }
                worker.send(SIGTERM)
                #expect(await worker.ending().code == 0)
            }
        }
    }

    @Test func faultsOfTheCallAndOfRedisAreReported() async throws {
        let interval = await (try ProgramUnderTest.megaton(["top", "--interval", "0"])).ending()
        #expect(interval.code == 64 && interval.errors.contains("--interval"), "\(interval.errors)")
        let missing = await (try ProgramUnderTest.megaton(["top", "--redis", "unix:///nonexistent/redis.sock"]))
            .ending()
        #expect(missing.code == 69 && missing.errors.contains("/nonexistent/redis.sock"), "\(missing.errors)")
    }

    // MARK: - The text

    /// A cluster with long names, of which each list has more than a window.
    private func view() throws -> TopView {
        let long = String(repeating: "long-", count: 30)
        var status = ClusterStatus()
        (status.isKnown, status.leader, status.done, status.dead) = (true, "host:1:a", 123_456_789, 30)
        status.workers = (0..<40).map { number in
            .init(name: "\(long)\(number)", running: number, silent: 3, renewal: 5, version: long, protocolVersion: 2)
        }
        var counters = CacheStatistics(counters: [:])
        counters.originFetchesByHost = Dictionary(uniqueKeysWithValues: (0..<90).map { ("\($0).\(long)", $0) })
        let restricted = try (0..<30).map { number in
            try #require(HostState("\(number).\(long):443", stored: "1 0 0.5 0 3 90000000", now: 1000))
        }
        let failures = (0..<10).map { number in
            let job = #"{"source":"https://\#(long)/\u001B[2J"}"#
            let content = DeadLetter.Content(code: "unsupported_format", message: "", batch: long, job: job)
            let json = (try? JSONEncoder().encode(content)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            return DeadLetter(key: "\(number)", died: 1, json: .bulk(ByteBuffer(string: json)))
        }
        func reading(_ time: ContinuousClock.Instant) -> TopReading {
            TopReading(
                status: status,
                ready: ReadyJobs(),
                caches: [],
                restricted: restricted,
                counters: counters,
                failures: failures,
                time: time
            )
        }
        let now = ContinuousClock.now
        let first = reading(now - .seconds(2))
        status.done += 30
        counters.originFetchesByHost["1.\(long)"] = 11
        return TopView(queue: "default", snapshot: TopSnapshot(from: first, to: reading(now)))
    }

    @Test func theTextFitsAWindow() throws {
        let view = try view()
        for height in [24, 30, 50] {
            let lines = view.lines(height: height)
            #expect(lines.count == height, "\(lines)")
            #expect(lines.allSatisfy { TextColumns.count($0) < 80 && !$0.contains("\u{1B}") }, "\(lines)")
        }
        #expect(view.lines().count > 50)
        let text = view.text
        #expect(text.contains("     15.0") && text.contains("workers (20 of 40)"), "\(text)")
        #expect(text.contains("last failures (10 of 30)") && text.contains("circuit open"), "\(text)")
    }

    @Test func aNarrowWindowHasAllNumbersAndWholeWarnings() throws {
        var view = try view()
        view.fault = String(repeating: "word ", count: 30) + "end"
        let lines = view.lines(width: 40).dropFirst(2).prefix { !$0.hasPrefix("last f") }
        #expect(lines.allSatisfy { TextColumns.count($0) <= 40 }, "\(lines)")
        for words in ["! word word", "done/s", "out/s", "dead"] {
            #expect(lines.contains { $0.contains(words) }, "\(words) in \(lines)")
        }
        #expect(lines.contains { $0.hasPrefix("  word") && $0.hasSuffix("word end") }, "\(lines)")
    }

    /// A worker that is silent may be one of many that work.
    @Test func silentWorkersComeFirst() throws {
        let reading = try view().snapshot.reading
        var status = reading.status
        status.workers[0].silent = 60
        let snapshot = TopSnapshot(
            from: nil,
            to: TopReading(
                status: status,
                ready: ReadyJobs(),
                caches: [],
                restricted: [],
                counters: reading.counters,
                failures: [],
                time: reading.time
            )
        )
        let lines = TopView(queue: "default", snapshot: snapshot).lines()
        let heading = try #require(lines.firstIndex { $0.hasPrefix("workers (") })
        #expect(lines[heading + 1].contains("60 s ago") && lines[1].contains("(1 silent)"), "\(lines)")
    }

    /// Fault: a fleet without workers, a control Redis without room and a cache that refuses entries had no line.
    @Test func standstillsHaveALine() throws {
        let reading = try view().snapshot.reading
        var (status, counters) = (reading.status, reading.counters)
        func lines(after last: TopReading?, memory: [String] = []) -> [String] {
            var now = TopReading(
                status: status,
                ready: ReadyJobs(),
                caches: [],
                restricted: [],
                counters: counters,
                failures: [],
                time: reading.time
            )
            now.memoryWarnings = memory
            return TopView(queue: "default", snapshot: TopSnapshot(from: last, to: now)).lines(width: 300)
        }
        #expect(!lines(after: reading).contains { $0.hasPrefix("! ") })
        (status.workers, status.ready) = ([], 2)
        counters.cacheFull += 1
        let all = lines(after: reading, memory: ["control Redis at redis://a: 99 % of 8 MiB"])
        #expect(all.contains("! no worker is running; 2 jobs wait. Start megaton worker."), "\(all)")
        #expect(all.contains("! control Redis at redis://a: 99 % of 8 MiB"), "\(all)")
        #expect(all.contains { $0.hasPrefix("! the shared cache refuses new entries") }, "\(all)")
        #expect(!lines(after: nil).contains { $0.hasPrefix("! the shared cache") }, "there is no reading before")
    }

    @Test func aFullControlRedisHasALine() async throws {
        try await RedisServerProcess.run { (redis) async throws in
            let client = redis.client()
            defer { client.close() }
            try await client.send(["CONFIG", "SET", "maxmemory", "1"])
            let arguments = ["top", "--once", "--interval", "0.1", "--redis", redis.url]
            let ending = await (try ProgramUnderTest.megaton(arguments)).ending()
            #expect(ending.code == 0 && ending.output.contains("! control Redis at "), "\(ending.output)")
            let object = await (try ProgramUnderTest.megaton(arguments + ["--json"])).ending()
            let parsed = try JSONSerialization.jsonObject(with: Data(object.output.utf8))
            let json = try #require(parsed as? [String: Any], "\(object.output)")
            let warnings = try #require(json["warnings"] as? [String])
            #expect(warnings.contains { $0.hasPrefix("control Redis at ") }, "\(warnings)")
            let lines = ending.output.components(separatedBy: "\n! ").count - 1
            #expect(warnings.count == lines, "both forms have the same ones: \(warnings) \(ending.output)")
        }
    }

    /// The host that is busy now comes first, and those with most fetches of all follow.
    @Test func hostsAreInTheOrderOfTheirRates() throws {
        let hosts = try view().snapshot.hosts
        #expect(hosts.count == 50 && hosts[0].fetches == 11 && hosts[0].fetchesPerSecond == 5)
        #expect(hosts[1].fetches == 89 && hosts[1].fetchesPerSecond == 0)
    }

    @Test(arguments: [
        (10, [3, 0, 9], [3, 0, 7]), (5, [9, 9, 9], [2, 2, 1]), (0, [1], [0]), (9, [1, 2], [1, 2]),
    ])
    func rowsAreSharedFairly(_ room: Int, _ counts: [Int], _ shares: [Int]) {
        #expect(TopView.shares(of: room, among: counts) == shares)
    }
}
