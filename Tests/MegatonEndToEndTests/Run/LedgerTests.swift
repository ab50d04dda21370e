import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// Writing and retrying ledgers, and inputs that have no line in one.
@Suite(.timeLimit(.minutes(3))) struct LedgerTests {
    private struct CannotLock: Error {}

    /// Fault: two runs wrote to one file and mixed up their lines.
    @Test func oneRunAtATimeWritesALedger() async throws {
        let home = try RunTests.Home()
        let picture = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let old = #"{"attempts":1,"source":"another-run.png","status":"done"}"# + "\n"
        let ledger = try home.directory.write(Data(old.utf8), to: "out/megaton-ledger.jsonl")
        let held = open(ledger, O_WRONLY | O_CLOEXEC)
        guard held >= 0, flock(held, LOCK_EX) == 0 else { throw CannotLock() }
        let refused = try await home.run([picture, "--workers", "1"])
        #expect(refused.code == 74 && refused.errors.contains("another run writes the ledger"), "\(refused.errors)")
        #expect(try String(contentsOfFile: ledger, encoding: .utf8) == old)
        close(held)
        let ending = try await home.run([picture, "--workers", "1"])
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(try home.ledger().count == 1)
    }

    @Test func aRunWithNothingToDoKeepsTheLedger() async throws {
        let home = try RunTests.Home()
        try home.directory.write(Data(), to: "in/text.txt")
        let old = #"{"attempts":1,"source":"an-earlier-run.png","status":"done"}"# + "\n"
        let ledger = try home.directory.write(Data(old.utf8), to: "out/megaton-ledger.jsonl")
        let ending = try await home.run([home.directory.path + "/in", "--workers", "1"])
        #expect(ending.code == 0 && ending.errors.contains("nothing to do"), "\(ending.errors)")
        #expect(try String(contentsOfFile: ledger, encoding: .utf8) == old)
    }

    /// Fault: a list of jobs and a file of credentials were truncated, as they begin like a ledger.
    @Test(arguments: [
        (#"{"source":"https://example.org/a.png","id":"a"}"# + "\n", false),
        ("{\n  \"credentials\": []\n}\n", false),
        (#"{"source":"https://example.org/a.png"}"#, false),
        ("\n" + #"{"attempts":1,"source":"a.png","status":"done"}"# + "\n", true),
        (#"{"attempts":1,"source":"a.p"#, true),
        ("", true),
    ])
    func onlyALedgerIsReplaced(content: String, isReplaced: Bool) async throws {
        let home = try RunTests.Home()
        let picture = try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let file = try home.directory.write(Data(content.utf8), to: "file.jsonl")
        let ending = try await home.run([picture, "--workers", "1", "--ledger", file])
        #expect(ending.code == (isReplaced ? 0 : 64), "\(ending.errors)")
        #expect(isReplaced || ending.errors.contains("is not a ledger, so it is not overwritten"), "\(ending.errors)")
        #expect(isReplaced == (try String(contentsOfFile: file, encoding: .utf8) != content))
    }

    /// Fault: it reported that no image was found in the inputs, and ended with 0.
    @Test(arguments: [
        ("cancelled", "2 cancelled jobs of the ledger were left out"),
        ("failed", "2 failed jobs could not be repeated: the ledger does not have them"),
        ("done", "nothing to do: the ledger has no failed job."),
    ])
    func aRepetitionSaysWhatItLeavesOut(_ name: String, _ words: String) async throws {
        let home = try RunTests.Home()
        let status = try #require(JobOutcome.Status(rawValue: name))
        let line = JobOutcome(source: "https://example.org/a.png", status: status).json() + Data("\n".utf8)
        let ledger = try home.directory.write(line + line, to: "out/old.jsonl")
        let run = ["run", "--retry-failed", ledger, "--workers", "1"]
        let ending = await (try home.megaton(run)).ending()
        #expect(ending.code == (status == .done ? 0 : 2) && ending.errors.contains(words), "\(ending.errors)")
        #expect(!ending.errors.contains("no image was found"), "\(ending.errors)")
        let dry = await (try home.megaton(run + ["--dry-run"])).ending()
        #expect(dry.code == ending.code && (status == .done || dry.errors.contains(words)), "\(dry.errors)")
    }

    /// Fault: a job was repeated once for each of its lines, also if the last one said that it was done.
    @Test func theLastLineOfAJobDecides() async throws {
        let home = try RunTests.Home()
        let entries: [(id: String, name: String, status: JobOutcome.Status)] = [
            ("a", "1", .failed), ("b", "2", .failed), ("a", "1", .failed), ("b", "2", .done), ("c", "3", .failed),
            ("c", "4", .done), ("d", "5", .done), ("d", "5", .failed), ("a", "1", .deduplicated),
        ]
        var lines = Data()
        for entry in entries {
            let source = "https://example.org/\(entry.name).png"
            var line = JobOutcome(id: entry.id, source: source, status: entry.status)
            if entry.status == .failed {
                let output = "file://\(home.directory.path)/\(entry.name).{ext}"
                line.job = Job(id: entry.id, source: source, output: output)
            }
            lines += line.json() + Data("\n".utf8)
        }
        let ledger = try home.directory.write(lines, to: "old.jsonl")
        let run = ["run", "--retry-failed", ledger, "--dry-run"]
        let ending = await (try home.megaton(run)).ending()
        let names = ending.output.split(separator: "\n").compactMap { $0.firstMatch(of: /org\/([0-9])/)?.1 }
        #expect(ending.code == 0 && names.sorted() == ["1", "3", "5"], "\(ending.output) \(ending.errors)")
    }

    /// Fault: no signal had an effect before the whole ledger had been read.
    @Test func aSignalEndsTheReadingOfALedger() throws {
        let home = try RunTests.Home()
        let line = JobOutcome(id: "a", source: "https://example.org/a.png", status: .done).json() + Data("\n".utf8)
        let ledger = RetryLedger(path: try home.directory.write(line + line + line, to: "old.jsonl"))
        var asked = 0
        do {
            _ = try ledger.readRoots {
                asked += 1
                return asked == 2
            }
            Issue.record("the whole ledger was read")
        } catch let error as CLIError {
            #expect(error.code == 130 && asked == 2, "\(error.message)")
        }
    }

    /// Fault: a repeated job has another id, and its output was named by that one.
    @Test(arguments: [
        ("file:///out/{id}-{name}.{ext}", "file:///out/sku-7-{name}.{ext}"),
        ("s3://thumbs/{id}/{id}.{ext}", "s3://thumbs/sku-7/sku-7.{ext}"), ("file:///out/a.jpg", "file:///out/a.jpg"),
    ])
    func aRepetitionKeepsTheIDInTheOutput(_ output: String, _ expected: String) throws {
        var outcome = JobOutcome(id: "sku-7", source: "https://example.org/a.png", status: .failed)
        outcome.job = Job(id: "sku-7", source: outcome.source, output: output)
        guard case .job(let job) = RetryLedger.entry(outcome) else {
            Issue.record("the job is not repeated")
            return
        }
        #expect(job.id == nil && job.output == expected)
    }

    /// Fault: the run went on to wait for a batch that was never submitted.
    @Test func aListThatCannotBeOpenedEndsTheRun() async throws {
        let home = try RunTests.Home()
        // A socket exists, but cannot be opened as a file by any user.
        let list = home.directory.path + "/list.txt"
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: list.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        try #require(code == 0 && list.utf8.count < 100)
        let ending = try await home.run([list, "--workers", "1"])
        #expect(ending.code == 64 && ending.errors.contains("\(list) cannot be read"), "\(ending.errors)")
    }

    /// Fault: they were neither rendered nor reported.
    @Test func anInputThatIsNoFileHasALineInTheLedger() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let folder = home.directory.path + "/in"
        try #require(symlink("nowhere", folder + "/b.png") == 0 && mkfifo(folder + "/c.png", 0o600) == 0)
        try #require(symlink(".", folder + "/d.png") == 0)
        let ending = try await home.run([folder, "--workers", "1", "--attempts", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        let names = try home.ledger().map { "\(URL(string: $0.source)?.lastPathComponent ?? "") \($0.status.rawValue)" }
        #expect(names.sorted() == ["a.png done", "b.png failed", "c.png failed"], "d.png leads to a directory")
    }

    /// Fault: the run read from the pipe that it was to write to, forever.
    @Test(arguments: ["-", "/dev/stdout", "/dev/fd/1"])
    func aLedgerGoesToAPipe(_ path: String) async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let run = try ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", #""$@" | cat"#, "sh", program, "run", "in", "-o", home.output, "-j1", "--ledger", path],
            environment: home.environment,
            directory: home.directory.path
        )
        let ending = await run.ending()
        #expect(ending.errors.contains("1 of 1 done"), "\(ending.errors)")
        let lines = ending.output.split(separator: "\n")
        #expect(lines.count == 1 && lines[0].contains(#""status":"done""#), "\(ending.output)")
        #expect(home.directory.files.allSatisfy { !$0.hasSuffix(".jsonl") && $0 != "-" })
    }

    /// Fault: the lines read to recognize a ledger were lost to the run, or it waited for more forever.
    @Test func aPipeIsNoLedgerToBeRetried() async throws {
        let home = try RunTests.Home()
        let pipe = home.directory.path + "/old.jsonl"
        try #require(mkfifo(pipe, 0o600) == 0)
        let ending = await (try home.megaton(["run", "--retry-failed", pipe, "-j1"])).ending()
        #expect(ending.code == 64 && ending.errors.contains("is not a regular file"), "\(ending.errors)")
    }

    @Test func aPipeWithoutAReaderIsNotWaitedForLong() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let pipe = home.directory.path + "/pipe"
        try #require(mkfifo(pipe, 0o600) == 0)
        let ending = try await home.run(["in", "--workers", "1", "--ledger", pipe])
        #expect(ending.code == 74 && ending.errors.contains("no process reads"), "\(ending.errors)")
        let device = await (try home.megaton(["run", "in", "-o", home.output, "-j1", "--ledger", "/dev/null"])).ending()
        #expect(device.code == 0, "\(device.errors)")
    }
}
