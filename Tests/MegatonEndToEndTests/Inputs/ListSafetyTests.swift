import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// Untrusted lists may read and never write; files that are not thumbnails are not overwritten.
@Suite(.timeLimit(.minutes(3))) struct ListSafetyTests {
    private static let thesis = Data("my thesis".utf8)

    /// Fault: an untrusted list replaced a text by a JPEG and reported "done".
    @Test func aJobInATextListWritesNothing() async throws {
        let home = try RunTests.Home()
        let text = try home.directory.write(Self.thesis, to: "thesis.txt")
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let job = #"{"source":"file://\#(image)","output":"file://\#(text)"}"#
        // Also with the byte-order mark and line ends of Windows.
        let list = try home.directory.write(Data("\u{FEFF}\(job)\r\n  \(job)\r\nin/a.png\r\n".utf8), to: "list.txt")
        let ending = try await home.run([list, "--workers", "1", "--overwrite"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(ending.errors.contains("list.txt, line 1 is refused") && ending.errors.contains("--jobs-from"))
        let failed = try home.ledger().compactMap(\.error)
        #expect(failed.count == 2 && failed.allSatisfy { $0.code == "invalid_job" && $0.message.contains(".jsonl") })
        #expect(home.outputs == ["in/a-256x256.jpg"])
        let arguments = ["run", "-", "--output", home.output, "--workers", "1", "--json"]
        let second = try await home.piped(Data("\(job)\n".utf8), arguments)
        #expect(second.code == 2 && second.errors.contains("line 1 is refused"), "\(second.errors)")
        #expect(FileManager.default.contents(atPath: text) == Self.thesis)
    }

    /// Fault: the password was in the ledger, and in Redis until a worker refused the job.
    @Test func aPasswordInASourceIsStoredNowhere() async throws {
        let home = try RunTests.Home()
        let url = "https://user:secret@example.org/a.jpg"
        let list = try home.directory.write(Data("\(url)\n".utf8), to: "list.txt")
        let jobs = try home.directory.write(Data(#"{"source":"\#(url)"}"#.utf8), to: "jobs.jsonl")
        let ending = try await home.run([url, list, jobs, "--workers", "1"])
        #expect(ending.code == 2 && ending.errors.contains("must not carry a user or a password"), "\(ending.errors)")
        let outcomes = try home.ledger()
        #expect(outcomes.count == 3 && outcomes.allSatisfy { $0.source == "https://…@example.org/a.jpg" })
        let text = try String(contentsOfFile: home.output + "/megaton-ledger.jsonl", encoding: .utf8)
        #expect(!text.contains("secret") && !ending.errors.contains("secret") && !ending.output.contains("secret"))
        let dry = try await home.run([url, "--dry-run"])
        #expect(
            dry.code == 2 && dry.errors.contains("\"https://example.org/a.jpg\": a source must not"),
            "\(dry.errors)"
        )
        try await RedisServerProcess.run { server in
            let submit = ["submit", url, jobs, "--batch", "b", "--redis", server.url]
            #expect(await (try home.megaton(submit)).ending().code == 0)
            let client = server.client()
            defer { client.close() }
            let queued = try await client.send(["LRANGE", "megaton:{default}:2:jobs:b", "0", "-1"]).array ?? []
            #expect(queued.count == 2 && queued.allSatisfy { $0.string?.contains("secret") == false })
        }
    }

    @Test func jobsOfStandardInputAreAskedFor() async throws {
        let home = try RunTests.Home()
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let job = #"{"source":"file://\#(image)","renditions":[{"name":"s","width":8}]}"#
        let arguments = ["run", "--jobs-from", "-", "-o", home.output, "-j1", "--allow-read", "in", "-q"]
        let ending = try await home.piped(Data(job.utf8), arguments)
        #expect(ending.code == 0 && ending.errors.isEmpty && ending.output.isEmpty, "\(ending.errors)")
        #expect(home.outputs.count == 1 && home.outputs[0].hasSuffix("a-s.jpg"), "\(home.outputs)")
        let twice = try await home.piped(Data(job.utf8), ["run", "-", "--jobs-from", "-", "-o", home.output])
        #expect(twice.code == 64 && twice.errors.contains("once"), "\(twice.errors)")
    }

    /// The current directory and those of lists are read-only.
    @Test func jobsWriteBeneathTheOutputOnly() async throws {
        let home = try RunTests.Home()
        let folder = home.directory.path
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        try home.directory.write(Data(), to: "more/placeholder")
        try home.directory.write(Data(), to: "out/placeholder")
        try #require(symlink(folder, home.output + "/up") == 0)
        func line(_ output: String) -> String { #"{"source":"file://\#(image)","output":"file://\#(output)"}"# }
        let lines = [
            line("\(folder)/own-{name}.{ext}"), line("\(folder)/in/own.jpg"), line("\(home.output)/up/own.jpg"),
            line("\(folder)/outside/{stem}.jpg"), line("\(home.output)/in.jpg"), line("\(folder)/more/{host}/b.jpg"),
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "jobs.JSONL")
        let ending = try await home.run([list, "--workers", "1", "--allow-root", folder + "/more"])
        #expect(ending.code == 2, "\(ending.errors)")
        let outcomes = try home.ledger()
        #expect(outcomes.count { $0.status == .done } == 2, "\(outcomes)")
        for message in outcomes.compactMap(\.error?.message) {
            #expect(message.contains("outside of the directories") && message.contains("--allow-root"), "\(message)")
            #expect(message.contains("file://\(folder)") || message.contains("file://\(home.output)/up"), "\(message)")
        }
        let images = home.directory.files.filter { $0.hasSuffix(".jpg") }.sorted()
        #expect(images == ["more/local/b.jpg", "out/in.jpg"])
    }

    /// Fault: a job that must not replace a file replaced an image, and with `--overwrite` any file.
    @Test func aJobMayReplaceNothing() async throws {
        let home = try RunTests.Home()
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let old = try TestImage.jpeg(width: 8, height: 8)
        try home.directory.write(old, to: "out/a.jpg")
        let line = #"{"source":"file://\#(image)","output":"file://\#(home.output)/a.jpg","replace":"none"}"#
        let list = try home.directory.write(Data(line.utf8), to: "jobs.jsonl")
        for options in [[], ["--overwrite"]] {
            let ending = try await home.run([list, "--workers", "1"] + options)
            #expect(ending.code == 2, "\(ending.errors)")
            #expect(try home.ledger().compactMap(\.error?.code) == ["output_exists"])
            #expect(FileManager.default.contents(atPath: "\(home.output)/a.jpg") == old)
        }
    }

    @Test func anInputIsNeverReplaced() async throws {
        let home = try RunTests.Home()
        var images: [String: Data] = [:]
        for (index, name) in ["a", "b", "c"].enumerated() {
            images[name] = try TestImage.jpeg(width: 64 + index * 8, height: 64)
            try home.directory.write(images[name] ?? Data(), to: "out/\(name).jpg")
        }
        try #require(symlink(home.output, home.directory.path + "/link") == 0)
        func line(_ source: String, _ output: String) -> String {
            #"{"source":"file://\#(source).jpg","output":"file://\#(home.output)/\#(output).jpg","replace":"all"}"#
        }
        // In place, over a later input and over an earlier one, through other names.
        let lines = [
            line("\(home.output)/a", "a"), line("\(home.directory.path)/link/b", "c"), line("\(home.output)/c", "./b"),
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "jobs.jsonl")
        for options in [[], ["--overwrite"]] {
            let ending = try await home.run([list, "--workers", "1", "--allow-read", home.directory.path] + options)
            #expect(ending.code == 2, "\(ending.errors)")
            let errors = try home.ledger().compactMap(\.error)
            #expect(errors.map(\.code) == ["output_exists", "output_exists", "output_exists"])
            #expect(errors.allSatisfy { $0.message.contains(home.output) }, "\(errors)")
            for (name, data) in images {
                #expect(FileManager.default.contents(atPath: "\(home.output)/\(name).jpg") == data)
            }
        }
    }

    @Test func aFileThatIsNoImageNeedsOverwrite() async throws {
        let home = try RunTests.Home()
        for name in ["a", "b"] {
            try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/\(name).png")
        }
        let path = try home.directory.write(Self.thesis, to: "out/a-256x256.jpg")
        let refused = try await home.run(["in", "--workers", "1"])
        #expect(refused.code == 2, "\(refused.errors)")
        #expect(refused.errors.contains(path) && refused.errors.contains("--overwrite"), "\(refused.errors)")
        #expect(FileManager.default.contents(atPath: path) == Self.thesis)
        #expect(try await home.run(["in", "--workers", "1", "--overwrite"]).code == 0)
        // The run's own images may be replaced: the same size, other options.
        let first = FileManager.default.contents(atPath: path)
        #expect(try await home.run(["in", "--workers", "1", "--quality", "20"]).code == 0)
        #expect(first != Self.thesis && FileManager.default.contents(atPath: path) != first)
        #expect(home.outputs == ["a-256x256.jpg", "b-256x256.jpg"])
    }

    /// Fault: these jobs were readable, and yet the retry left them out and ended with 0.
    @Test func aJobIsRepeatedThatFailedForItsIdOrItsOutput() async throws {
        let home = try RunTests.Home()
        let folder = home.directory.path
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        func line(_ id: String, _ output: String) -> String {
            #"{"id":"\#(id)","source":"file://\#(image)","output":"file://\#(output)"}"#
        }
        let lines = [
            line("a", "\(home.output)/a.jpg"), line("a", "\(home.output)/b.jpg"), line("c", "\(folder)/more/c.jpg"),
            "{}",
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "jobs.jsonl")
        let first = try await home.run([list, "--workers", "1"])
        let words = "jobs.jsonl, line 2 has the id \"a\" of line 1, which is another job"
        #expect(first.code == 2 && first.errors.contains(words), "\(first.errors)")
        let codes = try home.ledger().compactMap(\.error?.code).sorted()
        #expect(codes == ["id_conflict", "invalid_job", "invalid_job"])
        let run = ["run", "--retry-failed", "\(home.output)/megaton-ledger.jsonl", "--workers", "1"]
        // A job that was not even checked does not open its directory.
        let closed = await (try home.megaton(run)).ending()
        #expect(closed.code == 2 && closed.errors.contains("0 of 2 done"), "\(closed.errors)")
        let text = try String(contentsOfFile: home.output + "/megaton-ledger.retry.jsonl", encoding: .utf8)
        #expect(text.contains("--allow-read") && text.contains("--allow-root DIR"), "\(text)")
        let again = await (try home.megaton(run + ["--allow-root", folder])).ending()
        #expect(again.code == 2 && again.errors.contains("2 of 2 done"), "\(again.errors)")
        #expect(again.errors.contains("which failed as invalid_job: "), "\(again.errors)")
        #expect(again.errors.contains("1 failed job could not be repeated"), "\(again.errors)")
        let images = home.directory.files.filter { $0.hasSuffix(".jpg") }.sorted()
        #expect(images == ["more/c.jpg", "out/a.jpg", "out/b.jpg"])
    }

    /// A retried ledger may contain lines of untrusted lists.
    @Test func aRetriedLedgerWritesBesideItselfOnly() async throws {
        let home = try RunTests.Home()
        let image = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        try home.directory.write(Data(), to: "elsewhere/placeholder")
        var outcome = JobOutcome(source: "file://\(image)", status: .failed)
        outcome.error = .init(code: "timed_out", message: "late", retryable: true)
        outcome.job = Job(source: outcome.source, output: "file://\(home.directory.path)/elsewhere/a.jpg")
        let ledger = try home.directory.write(outcome.json() + Data("\n".utf8), to: "ledgers/old.jsonl")
        let run = ["run", "--retry-failed", ledger, "--workers", "1"]
        let refused = await (try home.megaton(run)).ending()
        #expect(refused.code == 2 && refused.errors.contains("--allow-root"), "\(refused.errors)")
        #expect(!home.directory.files.contains("elsewhere/a.jpg"))
        let allowed = await (try home.megaton(run + ["--allow-root", "elsewhere"])).ending()
        #expect(allowed.code == 0, "\(allowed.errors)")
        #expect(home.directory.files.contains("elsewhere/a.jpg"))
    }
}
