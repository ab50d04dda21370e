import Foundation
import MegatonTestSupport

extension RunTests.Home {
    /// Runs the program in the home's directory, with standard input.
    func piped(_ input: Data, _ arguments: [String]) async throws -> ProgramUnderTest.Ending {
        let file = try directory.write(input, to: "stdin")
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        let run = try ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", #"f=$1; shift; exec "$@" < "$f""#, "sh", file, program] + arguments,
            environment: environment,
            directory: directory.path
        )
        return await run.ending()
    }

    /// Writes images of different content beneath the home's directory.
    func writeImages(_ names: String...) throws {
        for (index, name) in names.enumerated() {
            try directory.write(TestImage.quarters(width: 32, height: 32, seed: UInt8(index)), to: name)
        }
    }
}
