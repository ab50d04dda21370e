import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// Unusual names of files, hosts and patterns.
@Suite(.timeLimit(.minutes(3))) struct InputTests {
    /// A path with a byte that is not valid UTF-8.
    private func path(_ start: String, _ byte: UInt8, _ end: String) -> [CChar] {
        (Array(start.utf8) + [byte] + Array(end.utf8) + [0]).map(CChar.init(bitPattern:))
    }

    @Test func aNameThatIsNotUTF8IsReported() async throws {
        let home = try RunTests.Home()
        let image = TestImage.quarters(width: 32, height: 32)
        let folder = home.directory.path + "/in"
        for name in ["good.png", "picture", "text", "folder/inside.png"] {
            try home.directory.write(image, to: "in/\(name)")
        }
        let (picture, text) = (path(folder + "/caf", 0xE9, ".png"), path(folder + "/caf", 0xE9, ".txt"))
        let directory = path(folder + "/dir", 0xFF, "")
        #expect(rename(folder + "/picture", picture) == 0 && rename(folder + "/text", text) == 0)
        #expect(rename(folder + "/folder", directory) == 0)
        let ending = try await home.run([folder, "--workers", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(ending.errors.contains("caf%E9.png is not UTF-8") || ending.errors.contains("dir%FF is not UTF-8"))
        #expect(ending.errors.contains("1 file in the directories was left out"), "\(ending.errors)")
        let failed = try home.ledger().filter { $0.status == .failed }
        #expect(Set(failed.map(\.source)) == ["file://\(folder)/caf%E9.png", "file://\(folder)/dir%FF"])
        #expect(failed.allSatisfy { $0.error?.code == "invalid_url" && $0.attempts == 1 })
        #expect(home.outputs == ["good-256x256.jpg"])
        let dry = await (try home.megaton(["run", folder, "-o", home.output, "--dry-run"])).ending()
        #expect(dry.code == 2 && !dry.output.contains("%E9") && !dry.output.contains("%FF"), "\(dry.output)")
        #expect(dry.errors.contains("caf%E9.png is not UTF-8") && dry.errors.contains("1 output of 1 job"))
    }

    /// Fault: the outputs were written to a directory with U+FFFD in its name.
    @Test func anArgumentThatIsNotUTF8IsRefused() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png")
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let run = try ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", #"exec "$0" run in --output "$(printf 'caf\351')""#, program],
            environment: home.environment,
            directory: home.directory.path
        )
        let ending = await run.ending()
        #expect(ending.code == 64, "\(ending.errors)")
        #expect(ending.errors.contains("argument 4, \"caf\u{FFFD}\", is not UTF-8"), "\(ending.errors)")
        #expect(home.directory.files.filter { $0.contains("caf") }.isEmpty)
    }

    /// Faults: the directory that reads like the output directory was left out without a word, the second of two such
    /// inputs was forbidden, and such a run was refused as reading its own output.
    @Test func directoriesOfEqualLettersAreDistinguishedByTheirBytes() async throws {
        let home = try RunTests.Home()
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        try home.writeImages("m/\(composed)/a.png", "in/\(composed)/a.png", "in/\(decomposed)/b.png")
        func run(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
            await (try home.megaton(["run", "--workers", "1"] + arguments)).ending()
        }
        for (inputs, output, count) in [
            (["m"], "m/\(decomposed)", 1), (["in/\(composed)", "in/\(decomposed)"], "out1", 2),
            (["in/\(composed)"], "in/\(decomposed)", 1),
        ] {
            let ending = try await run(inputs + ["--output", output])
            #expect(ending.code == 0, "\(inputs) \(ending.errors)")
            #expect(ending.errors.contains("\(count) of \(count) done"), "\(inputs) \(ending.errors)")
        }
    }

    /// Fault: such a path was opened under another name, with U+FFFD, and reported as not found.
    @Test func aLineThatIsNoUTF8IsRefusedByItsNumber() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "good.png")
        let lines = "good.png\n# caf?\ncaf?.png\n".utf8.map { $0 == UInt8(ascii: "?") ? 0xE9 : $0 }
        let list = try home.directory.write(Data(lines), to: "list.txt")
        // Fault: two outputs of a list of jobs became one file.
        let job = #"{"source":"good.png","labels":{"name":"caf?"}}"# + "\n"
        let jobs = try home.directory.write(
            Data(job.utf8.map { $0 == UInt8(ascii: "?") ? 0xE9 : $0 }),
            to: "jobs.jsonl"
        )
        let refused = try await home.run([jobs, "--workers", "1", "--dry-run"])
        #expect(refused.errors.contains("jobs.jsonl, line 1 is refused: it is not UTF-8"), "\(refused.errors)")
        let ending = try await home.run([list, "--workers", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(ending.errors.contains("list.txt, line 3 is refused: it is not UTF-8"), "\(ending.errors)")
        #expect(try home.ledger().compactMap { $0.error?.code } == ["invalid_job"])
        #expect(home.outputs == ["good-256x256.jpg"])
    }

    /// Fault: such a line ended the run with the jobs done before it.
    @Test func aLineThatIsTooLongIsRefusedAndTheOthersAreRead() throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let long = String(repeating: "x", count: 5 * 1024 * 1024)
        let barely = String(repeating: "y", count: LineReader.lineLimit + 1)
        let list = try directory.write(
            Data("a.png\n\(long)\n#\(long)\nb.png\n\(barely)\nc.png\n\(long)".utf8),
            to: "l.txt"
        )
        var reader = try InputReader(InputSelection(arguments: [list]))
        var (sources, refused): ([String], [Int]) = ([], [])
        while !reader.isAtEnd {
            for input in try reader.next(100) {
                switch input {
                case .source(let url, _): sources.append((url as NSString).lastPathComponent)
                case .refused(let line, let reason, let location):
                    #expect(line.utf8.count <= 2048 && reason.contains("longer than 2097152 bytes"), "\(reason)")
                    refused.append(location.number)
                case .job, .row: Issue.record("no line is a job or a row")
                }
            }
        }
        #expect(sources == ["a.png", "b.png", "c.png"] && refused == [2, 5, 7], "\(sources) \(refused)")
    }

    /// Fault: a pattern that started with the path as users type it excluded nothing.
    @Test(arguments: [
        ("in/old/*", true), ("./in/old/*", true), ("old/*", true), ("/srv/in/old/*", true), ("a.png", true),
        ("srv/in/*", false), ("in/new/*", false),
    ])
    func patternsArePathsAsPeopleSeeThem(_ pattern: String, _ isMeant: Bool) {
        let exclusions = Exclusions([pattern], here: "/srv")
        #expect(exclusions.contain("old/a.png", "/srv/in/old/a.png") == isMeant)
        #expect(!Exclusions([]).contain("a.png"))
    }

    @Test(arguments: [
        ("*.gif", false), ("*.[gG]if", false), ("[]a]", false), ("[!]]", false), ("[[:digit:]]*", false),
        (#"a\["#, false),
        ("]", false), ("[", true), ("a[", true), ("[]", true), ("[!]", true), ("[a][b", true),
    ])
    func aBracketWithoutAnEndIsFound(_ pattern: String, _ isOpen: Bool) {
        #expect(Exclusions.hasOpenBracket(pattern) == isOpen)
    }

    /// Neither percent-encoded as in the URL, nor encoded twice.
    @Test func aHostBeyondASCIIIsCalledInTheOutputAsInDNS() async throws {
        let home = try RunTests.Home()
        let ending = try await home.run([
            "http://bücher.example/a.png", "--workers", "1", "--allow-source", "elsewhere.example",
        ])
        #expect(ending.code == 2, "\(ending.errors)")
        let job = try #require(try home.ledger().first?.job)
        #expect(job.output == "file://\(home.output)/xn--bcher-kva.example/a-{name}.{ext}")
    }

    /// Fault: a check before the work opened the pipe and closed it again. Its writer had a reader for a moment, and
    /// SIGPIPE ended it.
    @Test func aCheckDoesNotOpenAPipe() throws {
        let directory = try TestDirectory()
        let pipe = directory.path + "/jobs"
        try #require(mkfifo(pipe, 0o600) == 0)
        let watch = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        defer { close(watch) }
        try #require(inotify_add_watch(watch, pipe, UInt32(IN_OPEN)) >= 0)
        var selection = InputSelection(arguments: [])
        selection.jobLists = [pipe]
        try InputCheck(selection).run()
        var events = [UInt8](repeating: 0, count: 4096)
        #expect(read(watch, &events, events.count) == -1 && errno == EAGAIN)
        // The watch reports what the check must not do.
        close(try InputReader.descriptor(of: pipe))
        #expect(read(watch, &events, events.count) > 0)
    }
}
