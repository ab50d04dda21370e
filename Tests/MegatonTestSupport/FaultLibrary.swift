public import Foundation

/// The library of faults inside a process, which `LD_PRELOAD` puts in front of a process under test.
public enum FaultLibrary {
    /// The library is not where it belongs: `swift build --product CFaults`.
    public struct NotBuilt: Error {
        /// Where it was looked for.
        public let path: String
    }

    /// It is built beside the program that runs: the tests, or the chaos harness. A file that is not there would be left
    /// out by the loader with no more than a word, and the fault with it.
    private static func path() throws(NotBuilt) -> String {
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
        let path = folder + "/libCFaults.so"
        guard FileManager.default.fileExists(atPath: path) else { throw NotBuilt(path: path) }
        return path
    }

    /// Contained in a picture of which a codec dies.
    public static let crash = Data(mark.utf8)
    private static let mark = "MEGATON-CRASH"

    /// The environment of a worker whose codecs die of a picture that contains ``crash``. Without Swift's backtrace, which
    /// takes seconds that are not the subject.
    public static func crashingCodec() throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_CRASH": mark, "SWIFT_BACKTRACE": "enable=no"]
    }

    /// The environment of a program whose wall clock differs from the machine's by what the file holds.
    public static func steppingClock(_ file: String) throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_CLOCK": file]
    }

    /// The environment of a program, and of those that it starts, for which the disk beneath a directory is full after so
    /// many bytes of each process.
    ///
    /// - Parameter directory: links resolved.
    public static func fullDisk(beneath directory: String, room: Int = 0) throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_DISK": directory, "MEGATON_ROOM": String(room)]
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
