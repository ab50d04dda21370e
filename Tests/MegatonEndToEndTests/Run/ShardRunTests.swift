import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// `--output tar:DIR`: the shards, the ledger and the cache together.
@Suite(.timeLimit(.minutes(5))) struct ShardRunTests {
    /// The samples of all indexes.
    private static func samples(in path: String) throws -> [ShardIndex.Sample] {
        let names = try FileManager.default.contentsOfDirectory(atPath: path).filter {
            $0.hasPrefix("shard-") && $0.hasSuffix(".json")
        }
        return try names.sorted().flatMap { name in
            let text = try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)"))
            return try JSONDecoder().decode(ShardIndex.self, from: text).samples
        }
    }

    private static func images(_ count: Int, _ home: RunTests.Home) throws {
        for index in 0..<count {
            let image = TestImage.quarters(width: 60, height: 40, seed: UInt8(index % 250))
            try home.directory.write(image, to: "in/\(index / 10)/\(index).png")
        }
    }

    /// Fault: each form of a line, and each field that changes no pixel, made another sample of one image.
    @Test func aSourceIsOneSampleInEveryList() async throws {
        let home = try RunTests.Home()
        try Self.images(1, home)
        let source = "file://\(home.directory.path)/in/0/0.png"
        let lists = [
            ("a.txt", source), ("b.jsonl", #"{"source":"\#(source)"}"#),
            ("c.jsonl", #"{"source":"\#(source)","attempts":3,"priority":"high","key":"k"}"#),
        ]
        for (name, line) in lists {
            try home.directory.write(Data("\(line)\n".utf8), to: name)
            let ending = await (try home.megaton(["run", name, "-o", "tar:\(home.output)", "-j", "1"])).ending()
            #expect(ending.code == 0, "\(ending.errors)")
        }
        #expect(try Self.samples(in: home.output).count == 1)
        // Another image, made of the same source.
        let line = #"{"source":"\#(source)","renditions":[{"width":9}]}"#
        try home.directory.write(Data("\(line)\n".utf8), to: "d.jsonl")
        let ending = await (try home.megaton(["run", "d.jsonl", "-o", "tar:\(home.output)", "-j", "1"])).ending()
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(try Self.samples(in: home.output).count == 2)
    }

    /// Fault: a refused line counted once more in the report with each run, and the `webdataset` package failed at
    /// names that differ in case alone.
    @Test func refusedJobsCountOnce() async throws {
        let home = try RunTests.Home()
        try Self.images(1, home)
        let source = "file://\(home.directory.path)/in/0/0.png"
        let names = #"{"source":"\#(source)","renditions":[{"name":"Web","width":9},{"name":"web","width":8}]}"#
        try home.directory.write(Data("\(names)\nhttps://user:secret@h.example/a.jpg\n".utf8), to: "l.jsonl")
        for _ in 0..<2 {
            let ending = await (try home.megaton(["run", "l.jsonl", "-o", "tar:\(home.output)", "-j", "1"])).ending()
            #expect(ending.code == 2 && ending.errors.contains("do not distinguish"), "\(ending.errors)")
        }
        var report = LedgerReport(directory: home.directory.path)
        try report.read(home.output + "/megaton-ledger.jsonl")
        #expect(report.totals.jobs == 2 && report.totals.failed == 2)
        // The lines of the batch belong to its shards.
        let ledger = home.output + "/megaton-ledger.jsonl"
        let queue = ["--redis", "redis://127.0.0.1:1"]
        let results = await (try home.megaton(["batch", "results", "b", "--ledger", ledger] + queue)).ending()
        #expect(results.code == 64 && results.errors.contains("has shards"), "\(results.code) \(results.errors)")
    }

    @Test func aRunWritesShardsAndASecondOneContinuesThem() async throws {
        let home = try RunTests.Home()
        try Self.images(7, home)
        let run = [
            "run", "in", "-o", "tar:\(home.output)", "-j", "1", "--size", "8", "--size", "16", "--shard-count", "3",
        ]
        let first = await (try home.megaton(run)).ending()
        #expect(first.code == 0, "\(first.errors)")
        var samples = try Self.samples(in: home.output)
        #expect(samples.count == 7 && Set(samples.map(\.key)).count == 7)
        #expect(samples.allSatisfy { $0.members.count == 3 && $0.members[0].name == "\($0.key).8x8.jpg" })
        var lines = try home.ledger()
        #expect(lines.count == 7 && lines.allSatisfy { $0.status == .done })
        #expect(Set(lines.compactMap(\.id)) == Set(samples.map(\.id)))
        let list = await
            (try ProgramUnderTest(
                program: "/usr/bin/env",
                arguments: ["tar", "-tf", "\(home.output)/shard-000002.tar"]
            )).ending()
        #expect(list.code == 0 && list.output.split(separator: "\n").count == 3, "\(list.output)")

        try home.directory.write(TestImage.quarters(width: 60, height: 40, seed: 99), to: "in/new.png")
        let second = await (try home.megaton(run)).ending()
        #expect(
            second.code == 0 && second.errors.contains("left out: 7 jobs already in the shards"),
            "\(second.errors)"
        )
        samples = try Self.samples(in: home.output)
        lines = try home.ledger()
        #expect(samples.count == 8 && lines.count == 8 && Set(lines.compactMap(\.id)) == Set(samples.map(\.id)))

        let other = await (try home.megaton(run.dropLast(4) + ["--size", "20"])).ending()
        #expect(other.code == 64 && other.errors.contains("has shards of other renditions"), "\(other.errors)")
        try FileManager.default.removeItem(atPath: home.output + "/megaton-ledger.jsonl")
        let third = await (try home.megaton(run)).ending()
        #expect(third.code == 0, "\(third.errors)")
        #expect(Set(try home.ledger().compactMap(\.id)) == Set(samples.map(\.id)), "the ledger comes from the shards")
        let complete = await (try home.megaton(run + ["--report"])).ending()
        #expect(complete.code == 0 && complete.errors.contains("the report is"), "\(complete.errors)")
        let report = try String(contentsOfFile: home.output + "/report.html", encoding: .utf8)
        #expect(report.contains(#""done":8"#), "the report is that of the whole ledger")
    }

    @Test func aPlanCountsTheShardsAndTheirJobs() async throws {
        let home = try RunTests.Home()
        try Self.images(7, home)
        let options = [
            "in", "-o", "tar:\(home.output)", "--size", "8", "--size", "16", "--shard-count", "3", "--json",
        ]
        func plan() async throws -> [String: Any] {
            let ending = await (try home.megaton(["plan"] + options)).ending()
            #expect(ending.code == 0, "\(ending.errors)")
            return try home.summary(ending)
        }
        let first = try await plan()
        #expect(!FileManager.default.fileExists(atPath: home.output), "a plan writes nothing")
        #expect(first["jobs"] as? Int == 7 && first["new"] as? Int == 14, "\(first)")
        let least = try #require(first["shards"] as? [String: Any])
        #expect(least["to_write"] as? Int == 3 && least["has_sizes"] as? Bool == false, "\(least)")
        #expect(least["done"] as? Int == 0 && least["continues"] as? Bool == false, "\(least)")

        let run = await (try home.megaton(["run", "-j", "1"] + options)).ending()
        #expect(run.code == 0, "\(run.errors)")
        for name in ["new.png", "newer.png"] {
            try home.directory.write(TestImage.quarters(width: 60, height: 40, seed: 99), to: "in/\(name)")
        }
        // A plan reads an archive without an index, and writes none.
        try FileManager.default.removeItem(atPath: "\(home.output)/shard-000000.json")
        let before = home.directory.files
        let second = try await plan()
        #expect(home.directory.files == before)
        #expect(second["jobs"] as? Int == 2, "\(second)")
        #expect(second["new"] as? Int == 4 && second["renders"] as? Int == 4, "\(second)")
        let shards = try #require(second["shards"] as? [String: Any])
        #expect(shards["done"] as? Int == 7 && shards["to_write"] as? Int == 1, "\(shards)")
        let estimate = try #require(second["estimate"] as? [String: Any])
        let bytes = try home.ledger().flatMap(\.outputs).reduce(0) { $0 + $1.bytes }
        let planned = try #require(estimate["output_bytes"] as? Int)
        #expect(abs(planned - bytes * 2 / 7) <= 1, "two jobs of the mean size: \(estimate)")

        let text = await (try home.megaton(["plan"] + options.dropLast() + ["--all"])).ending()
        #expect(text.output.contains("  kept      7 jobs already in the shards\n"), "\(text.output)")
        #expect(text.output.contains("  shards    1 to be written\n"), "\(text.output)")
        #expect(text.output.contains("new       \(home.directory.path)/in/new.png -> new-"), "\(text.output)")
        let other = await (try home.megaton(["plan"] + options + ["--size", "20"])).ending()
        #expect(other.code == 64 && other.errors.contains("has shards of other renditions"), "\(other.errors)")
    }

    /// A killed client leaves samples with and without a line, and perhaps a torn one.
    @Test func aKilledRunIsContinued() async throws {
        let home = try RunTests.Home()
        let count = 120
        try Self.images(count, home)
        let shards = try TestDirectory()
        let run = ["run", "in", "-o", "tar:\(shards.path)", "-j", "1", "--size", "16", "--shard-count", "50"]
        let killed = try home.megaton(run)
        try await shards.waitForFile(named: ShardNames.partial(0))
        killed.send(SIGKILL)
        #expect(await killed.ending().code == 128 + SIGKILL)
        let again = await (try home.megaton(run)).ending()
        #expect(again.code == 0, "\(again.errors)")
        let samples = try Self.samples(in: shards.path)
        #expect(samples.count == count && Set(samples.map(\.key)).count == count)
        let text = try String(contentsOfFile: shards.path + "/megaton-ledger.jsonl", encoding: .utf8)
        let lines = try text.split(separator: "\n").map {
            try JSONDecoder().decode(JobOutcome.self, from: Data($0.utf8))
        }
        let done = lines.filter { $0.status == .done }.compactMap(\.id)
        #expect(done.count == count && Set(done) == Set(samples.map(\.id)), "each sample has one line")
        #expect(!shards.files.contains { $0.hasSuffix(".partial") })
    }

    /// Fault: the second Ctrl-C had no effect while the cache did not answer, for a minute.
    @Test(.timeLimit(.minutes(1))) func theSecondSignalEndsTheWaitForTheCache() async throws {
        let directory = try TestDirectory()
        let path = directory.path + "/ledger.jsonl"
        let ledger = try await Ledger.open(path, isDurable: true, isContinued: true) { false }
        defer { ledger.close() }
        let limits = TarShards.Limits(size: 1 << 20, count: 10)
        let shutdown = ShutdownSignal()
        let output = try await ShardOutput.open(
            directory.path,
            limits: limits,
            renditions: "r",
            ledger: ledger,
            unless: shutdown
        )
        defer { output.close() }
        let cache = try RedisDataCache(redis: "redis://127.0.0.1:1")
        defer { cache.close() }
        let digest = String(repeating: "0", count: 64)
        let line = Data(
            (#"{"attempts":1,"id":"x","outputs":[{"bytes":1,"cacheKey":"\#(digest)","format":"jpeg","from":"render","#
                + #""height":1,"name":"s","sha256":"\#(digest)","width":1}],"seconds":0,"#
                + #""source":"https://example.org/a.jpg","status":"done"}"#).utf8
        )
        async let stored = output.store([line], from: cache, unless: shutdown)
        for level in [ShutdownSignal.Level.drain, .abort] { shutdown.raise(to: level) }
        do {
            let lines = try await stored
            Issue.record("the cache has answered: \(lines)")
        } catch {
            let error = try #require(error as? CLIError)
            #expect(error.code == 130 && error.message.contains("The same command again"), "\(error)")
        }
    }

    /// Fault: no signal had an effect before all archives without an index had been read.
    @Test func aSignalEndsTheReadingOfTheShards() async throws {
        let directory = try TestDirectory()
        try directory.write(Data(count: 1024), to: "shard-000000.tar")
        let ledger = try await Ledger.open(directory.path + "/l.jsonl", isDurable: true, isContinued: true) { false }
        defer { ledger.close() }
        let limits = TarShards.Limits(size: 1 << 20, count: 10)
        func open(_ shutdown: ShutdownSignal) async throws -> ShardOutput {
            try await ShardOutput.open(
                directory.path,
                limits: limits,
                renditions: "r",
                ledger: ledger,
                unless: shutdown
            )
        }
        let shutdown = ShutdownSignal()
        shutdown.raise(to: .drain)
        let error = await #expect(throws: CLIError.self) { _ = try await open(shutdown) }
        #expect(error?.code == 130 && error?.message.contains("Nothing was begun") == true)
        #expect(!directory.files.contains("shard-000000.json"))
        let output = try await open(ShutdownSignal())
        output.close()
        #expect(directory.files.contains("shard-000000.json"), "the directory is free")
    }

    @Test func ownIDsAndRepeatedInputsAreSamplesOfOneName() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 40, height: 20), to: "a.png")
        let lines = [
            #"{"source":"file://\#(path)","id":"x.1","labels":{"class":3}}"#, #"{"source":"file://\#(path)"}"#,
            #"{"source":"file://\#(path)"}"#,
            #"{"source":"file://\#(path)","output":"file://\#(home.output)/b.{ext}"}"#,
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "jobs.jsonl")
        let ending = await (try home.megaton(["run", list, "-o", "tar:\(home.output)", "-j", "1"])).ending()
        #expect(ending.code == 2 && ending.errors.contains("1 repeated input"), "\(ending.errors)")
        #expect(ending.errors.contains("it names an output, and the run writes shards"), "\(ending.errors)")
        let samples = try Self.samples(in: home.output)
        #expect(samples.count == 2 && samples.contains { $0.id == "x.1" && $0.key == ShardSample.key(of: "x.1") })
        let labeled = try #require(samples.first { $0.id == "x.1" }?.members.last)
        let archive = try Data(contentsOf: URL(fileURLWithPath: "\(home.output)/shard-000000.tar"))
        let json = archive[labeled.offset..<labeled.offset + labeled.size]
        #expect(try JSONDecoder().decode(JobOutcome.self, from: Data(json)).labels == ["class": .integer(3)])
    }

    /// Fault: the same command again added a sample of the second row, as the first one was left out.
    @Test func aDuplicateHasNoSampleInAnyRun() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 40, height: 20), to: "a.png")
        let table = "url,sku\na.png,one\na.png,two\n"
        let list = try home.directory.write(Data(table.utf8), to: "list.csv")
        let run = ["run", list, "--id-column", "sku", "--deduplicate", "-o", "tar:\(home.output)", "-j", "1"]
        for _ in 0..<3 {
            let ending = await (try home.megaton(run)).ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(try Self.samples(in: home.output).map(\.id) == ["one"])
        }
        #expect(try home.ledger().map(\.status.rawValue).sorted() == ["deduplicated", "done"])
        let all = await (try home.megaton(run.filter { $0 != "--deduplicate" })).ending()
        #expect(all.code == 0, "\(all.errors)")
        #expect(try Self.samples(in: home.output).map(\.id) == ["one", "two"])
    }

    /// Fault: it was left out as a job that is in the shards, and the exit code was 0.
    @Test func anIDWithAnotherSourceFails() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 40, height: 20, seed: 1), to: "a.png")
        try home.directory.write(TestImage.quarters(width: 40, height: 20, seed: 2), to: "b.png")
        func run(_ source: String) async throws -> ProgramUnderTest.Ending {
            let line = #"{"source":"file://\#(home.directory.path)/\#(source).png","id":"x.1"}"#
            let list = try home.directory.write(Data(line.utf8), to: "jobs.jsonl")
            return await (try home.megaton(["run", list, "-o", "tar:\(home.output)", "-j", "1"])).ending()
        }
        #expect(try await run("a").code == 0)
        let other = try await run("b")
        #expect(other.code == 2 && !other.errors.contains("left out"), "\(other.errors)")
        let failed = try #require(try home.ledger().last)
        #expect(failed.status == .failed && failed.id == "x.1", "\(failed)")
        #expect(failed.error?.message.contains("already, from another source") == true, "\(failed)")
        let same = try await run("a")
        #expect(same.code == 0 && same.errors.contains("left out: 1 job already in the shards"), "\(same.errors)")
        #expect(try Self.samples(in: home.output).map(\.id) == ["x.1"])
    }

    private static let contradictions: [(options: [String], words: String)] = [
        (["-o", "tar:"], "it must name a directory"), (["-o", "o", "--shard-size", "5"], "is for shards"),
        (["-o", "tar:o", "--name", "{stem}"], "named by the ids"), (["-o", "tar:o", "--shard-count", "0"], "1 to"),
        (["-o", "tar:o", "--dry-run"], "--dry-run does not go with"),
        (["-o", "tar:o", "--cache-policy", "none"], "--cache-policy none stores none"),
        (["-o", "tar:o", "--force"], "--force does not go with --output tar:DIR, whose samples stay"),
        (["-o", "tar:o", "--refresh"], "--refresh does not go with --output tar:DIR, whose samples stay"),
    ]

    @Test func optionsThatContradictShardsAreWrongUsage() async throws {
        try await inPairs(Self.contradictions) { (options, words) in
            let ending = await (try ProgramUnderTest.megaton(["run", "/tmp"] + options)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(options): \(ending.errors)")
        }
    }

    /// Fault: the jobs were rendered, nothing came into the shards, and the exit code was 0.
    @Test(arguments: [[], ["in", "-o", "tar:out"], ["-o", "tar:out"]] as [[String]])
    func aLedgerOfShardsIsNotRetried(_ options: [String]) async throws {
        let home = try RunTests.Home()
        try home.directory.write(Data(), to: "in/a.png")
        try home.directory.write(Data("{}".utf8), to: "out/\(ShardNames.manifest)")
        let line = JobOutcome(id: "x", source: "https://example.org/a.png", status: .failed).json() + Data("\n".utf8)
        let ledger = try home.directory.write(line, to: "out/megaton-ledger.jsonl")
        let ending = await (try home.megaton(["run", "--retry-failed", ledger, "-j", "1"] + options)).ending()
        #expect(ending.code == 64 && ending.errors.contains("is a ledger of shards"), "\(ending.errors)")
        #expect(ending.errors.contains("it repeats the jobs that failed"), "\(ending.errors)")
    }

    /// Command, id of the failed job, and a part of the message.
    private static let retries: [(command: [String], id: String?, words: String)] = [
        (["run", "-j", "1"], nil, "is a ledger of shards"), (["plan"], nil, "is a ledger of shards"),
        (["run", "-j", "1"], "x", "elsewhere.jsonl name no output, as those of shards and of a submission"),
        (["run", "in", "-o", "tar:out", "-j", "1"], "x", "it repeats the jobs that failed"),
        (["submit", "--redis", "redis://127.0.0.1:1"], nil, "is a ledger of shards"),
    ]

    /// Fault: beside no shards, the images of the retry stayed in the cache, and the exit code was 0.
    @Test func aLedgerOfShardsThatIsElsewhereIsNotRetried() async throws {
        let source = "https://example.org/a.png"
        func retry(_ command: [String], _ id: String?) async throws -> ProgramUnderTest.Ending {
            let home = try RunTests.Home()
            try home.directory.write(Data(), to: "in/a.png")
            let id = id ?? ShardSample.id(path: "example.org/a", identity: source)
            var outcome = JobOutcome(id: id, source: source, status: .failed)
            outcome.job = Job(id: id, source: source)
            let done = JobOutcome(id: "y", source: source, status: .done)
            let lines = [done, outcome].reduce(Data()) { $0 + $1.json() + Data("\n".utf8) }
            let ledger = try home.directory.write(lines, to: "elsewhere.jsonl")
            return await (try home.megaton(command + ["--retry-failed", ledger])).ending()
        }
        for (command, id, words) in Self.retries {
            let ending = try await retry(command, id)
            #expect(ending.code == 64 && ending.errors.contains(words), "\(command): \(ending.errors)")
        }
        let others = try await retry(["submit", "--redis", "redis://127.0.0.1:1"], "x")
        #expect(others.code == 69, "a submission without --output is repeated: \(others.errors)")
    }

    @Test func aSubmissionWaitsForItsShards() async throws {
        let redis = ["--redis", "redis://127.0.0.1:1"]
        let ending = await (try ProgramUnderTest.megaton(["submit", "/tmp", "-o", "tar:o"] + redis)).ending()
        #expect(ending.code == 64 && ending.errors.contains("--output tar:DIR needs --wait"), "\(ending.errors)")
    }
}
