public import Foundation

/// The library that injects faults into a process under test, through `LD_PRELOAD`.
public enum FaultLibrary {
    /// The library was not found: `swift build --product CFaults` builds it.
    public struct NotBuilt: Error {
        /// The path at which it was expected.
        public let path: String
    }

    /// The library is built beside the running program: the tests, or the chaos harness. The check is needed because
    /// the loader only warns about a missing file, and the fault would silently be missing.
    private static func path() throws(NotBuilt) -> String {
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().path
        let path = folder + "/libCFaults.so"
        guard FileManager.default.fileExists(atPath: path) else { throw NotBuilt(path: path) }
        return path
    }

    /// Bytes in an image that make a codec crash.
    public static let crash = Data(mark.utf8)
    private static let mark = "MEGATON-CRASH"

    /// The environment of a worker whose codecs crash on an image that contains ``crash``. Without Swift's backtrace,
    /// which would take seconds.
    public static func crashingCodec() throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_CRASH": mark, "SWIFT_BACKTRACE": "enable=no"]
    }

    /// The environment of a program whose wall clock differs from the machine's by the offset in the file.
    public static func steppingClock(_ file: String) throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_CLOCK": file]
    }

    /// The environment of a program, and of its children, for which the disk beneath a directory is full after `room`
    /// bytes of each process.
    ///
    /// - Parameter directory: a path with its links resolved.
    public static func fullDisk(beneath directory: String, room: Int = 0) throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_DISK": directory, "MEGATON_ROOM": String(room)]
    }

    /// Steps the clock of all programs that follow the file, in milliseconds from the machine's time. The file is
    /// written in place, because the programs have it mapped.
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
