import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// Images that crash the decoder, in a run: the images fail, but not the run.
@Suite(.serialized, .timeLimit(.minutes(3))) struct ImageCrashTests {
    private static let good = TestImage.quarters(width: 64, height: 64)
    private static let crasher = good + FaultLibrary.crash

    /// A run with two workers whose decoders crash on marked images, with the workers' logs.
    private func run(
        _ home: RunTests.Home,
        _ inputs: [String],
        fault: [String: String]? = nil
    ) async throws -> ProgramUnderTest.Ending {
        let arguments = ["run"] + inputs + ["--output", home.output, "--json", "--workers", "2", "--verbose"]
        let environment = home.environment.merging(try fault ?? FaultLibrary.crashingCodec()) { $1 }
        return await
            (try ProgramUnderTest.megaton(
                arguments,
                environment: environment,
                directory: home.directory.path
            )).ending()
    }

    /// Number of processes that died: workers and processes for suspects.
    private func deaths(_ errors: String) -> Int {
        errors.split(separator: "\n").count {
            $0.contains("and is started again") || $0.contains("the isolated process for suspects ended")
        }
    }

    // Fault: the run ended with 69, and most jobs had no line in the ledger.
    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it"))
    func crashersAmongGoodFilesArePoisonAndAllOthersAreDone() async throws {
        let home = try RunTests.Home()
        for number in 0..<80 {
            try home.directory.write(number % 20 == 7 ? Self.crasher : Self.good, to: "in/\(number).png")
        }
        let ending = try await run(home, [home.directory.path + "/in"])
        #expect(ending.code == 2, "\(ending.errors)")
        let ledger = try home.ledger()
        #expect(ledger.count == 80 && Set(ledger.map(\.source)).count == 80)
        #expect(ledger.count { $0.status == .done } == 76, "\(ledger.filter { $0.status != .done })")
        let poisoned = ledger.filter { $0.error?.code == "poison" }
        #expect(poisoned.count == 4)
        #expect(poisoned.allSatisfy { $0.error?.message.contains("megaton run --retry-failed") == true })
        #expect(deaths(ending.errors) <= 12, "\(ending.errors)")
    }

    // Fault: the image was taken for one that crashes, after three workers had hung in it, and no message named the
    // limit.
    @Test func anImageInWhichACodecHangsFailsWithTheLimitAndHarmsNoOther() async throws {
        let home = try RunTests.Home()
        for number in 0..<20 {
            try home.directory.write(number == 7 ? Self.good + FaultLibrary.hang : Self.good, to: "in/\(number).png")
        }
        let ending = try await run(
            home,
            [home.directory.path + "/in", "--max-seconds", "1"],
            fault: try FaultLibrary.hangingCodec()
        )
        #expect(ending.code == 2, "\(ending.errors)")
        let ledger = try home.ledger()
        #expect(ledger.count == 20 && ledger.count { $0.status == .done } == 19)
        let failed = try #require(ledger.first { $0.status == .failed })
        #expect(failed.error?.code == "render_timed_out" && failed.attempts == 1, "\(failed)")
        #expect(failed.error?.message.contains("--max-seconds") == true, "\(failed)")
        // The hung process ends after it has reported the job. If that was the last one, the run has ended before.
        #expect(deaths(ending.errors) <= 1, "\(ending.errors)")
    }

    // Fault: each of the jobs killed four workers.
    @Test func jobsThatNameOneCrasherAreFailedTogether() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(Self.crasher, to: "in/crasher.png")
        let lines = (0..<50).map { number in
            #"{"id":"job-\#(number)","source":"file://\#(path)","renditions":[{"width":\#(10 + number)}]}"#
        }
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "in/jobs.jsonl")
        let ending = try await run(home, [list])
        #expect(ending.code == 2, "\(ending.errors)")
        let ledger = try home.ledger()
        #expect(ledger.count == 50 && ledger.allSatisfy { $0.error?.code == "poison" })
        #expect(deaths(ending.errors) <= 4, "\(ending.errors)")
    }

    /// The program is no longer executable when its workers are started: the run ends soon, with another exit code than
    /// that for Redis.
    @Test func workersThatCannotStartEndTheRunWithTheirReason() async throws {
        let home = try RunTests.Home()
        let (process, program) = try await Self.runOfACopy(in: home)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: program)
        let ending = await process.ending()
        #expect(ending.code == 70, "\(ending.errors)")
        #expect(ending.errors.contains("worker 1 cannot start"), "\(ending.errors)")
        #expect(ending.errors.contains("Permission denied"), "\(ending.errors)")
    }

    /// An upgrade replaces the program during a run: the run starts its workers from the file that it runs itself.
    @Test func aProgramFileThatIsReplacedStillStartsItsWorkers() async throws {
        let home = try RunTests.Home()
        let (process, program) = try await Self.runOfACopy(in: home)
        try FileManager.default.removeItem(atPath: program)
        let ending = await process.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        #expect(ending.errors.contains("1 of 1 done"), "\(ending.errors)")
    }

    /// A run of one image by a copy of the program. The kernel has opened the copy; its workers are not started yet,
    /// because Redis comes first.
    private static func runOfACopy(in home: RunTests.Home) async throws -> (ProgramUnderTest, String) {
        let image = try home.directory.write(good, to: "in/a.png")
        let built = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let program = home.directory.path + "/megaton"
        // A copy and not a link: permissions belong to the file, not to its name.
        try FileManager.default.copyItem(atPath: built, toPath: program)
        let process = try ProgramUnderTest(
            program: program,
            arguments: ["run", image, "--output", home.output, "--workers", "1"],
            environment: home.environment,
            directory: home.directory.path
        )
        let link = "/proc/\(process.pid)/exe"
        while try FileManager.default.destinationOfSymbolicLink(atPath: link) != program { await Task.yield() }
        return (process, program)
    }
}
