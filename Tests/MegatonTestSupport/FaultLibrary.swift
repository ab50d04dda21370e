public import Foundation

/// The library of faults inside a process, which `LD_PRELOAD` puts in front of a process under test.
public enum FaultLibrary {
    /// It is built beside the program that runs: the tests, or the chaos harness.
    private static var path: String {
        URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path + "/libCFaults.so"
    }

    /// Contained in a picture of which a codec dies.
    public static let crash = Data("MEGATON-CRASH".utf8)

    /// The environment of a worker whose codecs die of a picture that contains ``crash``. Without Swift's backtrace, which
    /// takes seconds that are not the subject.
    public static var crashingCodec: [String: String] { ["LD_PRELOAD": path, "SWIFT_BACKTRACE": "enable=no"] }

    /// The environment of a program whose wall clock differs from the machine's by what the file holds.
    public static func steppingClock(_ file: String) -> [String: String] {
        ["LD_PRELOAD": path, "MEGATON_CLOCK": file]
    }

    /// Steps the clock of all programs that follow the file, in milliseconds from the machine's time. The file is written
    /// in place, as they have it mapped.
    public static func setClock(_ file: String, aheadBy milliseconds: Int64) throws {
        let bytes = withUnsafeBytes(of: milliseconds) { Data($0) }
        if !FileManager.default.fileExists(atPath: file) {
            try bytes.write(to: URL(fileURLWithPath: file))
            return
        }
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: file))
        try handle.write(contentsOf: bytes)
        try handle.close()
    }
}
