import Foundation
import MegatonTestSupport

/// A pseudo-terminal on which a program asks, and the test answers.
final class TestTerminal: Sendable {
    private let device: Int32
    /// Held open, so that an answer may be typed before the program starts.
    private let program: Int32
    private let path: String

    init() throws {
        var (device, program): (Int32, Int32) = (-1, -1)
        guard openpty(&device, &program, nil, nil, nil) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        (self.device, self.program) = (device, program)
        path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(program)")
        for descriptor in [device, program] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(device, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(program)
        close(device)
    }

    /// Types a line.
    func type(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        _ = write(device, bytes, bytes.count)
    }

    /// The text that the program has written, after its end.
    var text: String {
        var text = Data()
        var block = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(device, &block, block.count)
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += block[..<count]
        }
    }

    /// Runs the program with the terminal as standard input and standard error.
    func megaton(_ arguments: [String], _ home: RunTests.Home) async throws -> ProgramUnderTest.Ending {
        let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/megaton"
        // A dumb terminal gets no progress, so that all fits into the buffer of the kernel.
        let run = try ProgramUnderTest(
            program: "/bin/sh",
            arguments: ["-c", #"t=$1; shift; exec "$@" <"$t" 2>"$t""#, "sh", path, program] + arguments,
            environment: home.environment.merging(["TERM": "dumb"]) { $1 },
            directory: home.directory.path
        )
        return await run.ending()
    }
}
