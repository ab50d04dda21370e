import Foundation
import MegatonTestSupport
import Testing

/// Standard streams that are closed or full, and readers that end early.
@Suite(.timeLimit(.minutes(2))) struct StandardStreamTests {
    private static var program: String {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
    }

    /// Runs the program by a shell, so that its streams can be redirected.
    ///
    /// - Parameter redirection: follows the command: `>&-`.
    private func megaton(
        _ arguments: [String],
        _ redirection: String,
        in home: RunTests.Home
    ) async throws -> ProgramUnderTest.Ending {
        try await ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", "\"$@\" \(redirection)", "sh", Self.program] + arguments,
            environment: home.environment,
            directory: home.directory.path
        ).ending()
    }

    private func home() throws -> RunTests.Home {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        return home
    }

    /// Fault: an internal descriptor had the number 1 and received the lines: the run never ended.
    @Test(arguments: [
        (["--ledger", "-"], "the ledger cannot be written: standard output is closed"),
        (["--ledger", "/dev/stdout"], "standard output is closed"),
        (["--json"], "standard output is closed, so that the object of --json cannot be written; nothing was begun"),
        (["--dry-run"], "standard output is closed, so that the list of --dry-run cannot be written"),
    ])
    func aClosedOutputIsRefusedAtOnce(_ options: [String], _ words: String) async throws {
        let home = try home()
        let ending = try await megaton(["run", "in", "-o", home.output, "-j1"] + options, ">&-", in: home)
        #expect(ending.code == 74 && ending.errors.contains(words), "\(ending.errors)")
        #expect(home.outputs.isEmpty && ending.errors.split(separator: "\n").count == 1, "\(ending.errors)")
    }

    /// A run that prints nothing needs none of the three.
    @Test func aRunWithoutStandardStreamsDoesItsWork() async throws {
        let home = try home()
        let ending = try await megaton(["run", "in", "-o", home.output, "-j1"], "<&- >&- 2>&-", in: home)
        #expect(ending.code == 0)
        #expect(home.outputs == ["a-256x256.jpg"])
        #expect(try home.ledger().count == 1)
        let list = try await megaton(["run", "-", "-o", home.output, "-j1"], "<&-", in: home)
        #expect(list.code == 64 && list.errors.contains("Bad file descriptor"), "\(list.errors)")
    }

    /// Fault: the result was lost with exit code 0 and without a message.
    @Test func outputThatIsLostIsAnError() async throws {
        let home = try home()
        let run = ["run", "in", "-o", home.output, "-j1"]
        let words = "standard output cannot be written: No space left on device."
        for arguments in [
            run + ["--json"], run + ["--dry-run"], run + ["--dry-run", "--json"], ["--help"], ["--version"],
        ] {
            let ending = try await megaton(arguments, ">/dev/full", in: home)
            #expect(ending.code == 74 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
        }
        #expect(home.outputs == ["a-256x256.jpg"], "the images of the first run are kept")
        try await RedisServerProcess.run { redis in
            let url = ["--redis", redis.url]
            for command in [
                ["status"], ["status", "--json"], ["stats"], ["dead", "list"], ["batch", "list"], ["doctor"],
            ] {
                let full = try await megaton(command + url, ">/dev/full", in: home)
                #expect(full.code == 74 && full.errors.contains(words), "\(command): \(full.errors)")
                let closed = try await megaton(command + url, ">&-", in: home)
                #expect(
                    closed.code == 74 && closed.errors.contains("standard output cannot be written: it is closed."),
                    "\(command): \(closed.errors)"
                )
            }
            // Its jobs are in the queue, and their batch has to be known.
            let submit = ["submit", "in", "-o", home.output] + url
            let lost = try await megaton(submit, ">/dev/full", in: home)
            #expect(lost.code == 74 && lost.errors.contains("with 1 job was submitted"), "\(lost.errors)")
            let closed = try await megaton(submit, ">&-", in: home)
            #expect(closed.code == 74 && closed.errors.contains("the name of the batch"), "\(closed.errors)")
        }
    }

    /// The reader has what it wants: neither an error nor a message.
    @Test func aReaderThatEndsEarlyIsNoError() async throws {
        let home = try home()
        for index in 0..<400 {
            try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "in/\(index).png")
        }
        let run = ["run", "in", "-o", home.output, "--dry-run"]
        let ending = try await ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", "{ \"$@\" || echo failed >&2; } | head -1", "sh", Self.program] + run,
            environment: home.environment,
            directory: home.directory.path
        ).ending()
        #expect(!ending.errors.contains("failed") && !ending.errors.contains("standard output"), "\(ending.errors)")
        #expect(ending.output.split(separator: "\n").count == 1)
    }
}
