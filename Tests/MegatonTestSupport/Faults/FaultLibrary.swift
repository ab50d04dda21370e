public import Foundation

/// The library that injects faults into a process under test, through `LD_PRELOAD`.
public enum FaultLibrary {
    /// The library could not be built.
    public struct NotBuilt: Error {
        /// Messages of the compiler.
        public let reason: String
    }

    /// The library, built once for each process that injects faults. SwiftPM builds shared libraries only as products,
    /// which packages that depend on this one would see. The check is needed because the loader only warns about a
    /// missing file, and the fault would silently be missing.
    private static let library = Result { () throws(NotBuilt) in try build() }

    private static func path() throws(NotBuilt) -> String { try library.get() }

    private static func build() throws(NotBuilt) -> String {
        let sources = Repository.files("Tests/CFaults").filter { $0.hasSuffix(".c") }.map { "\(Repository.root)/\($0)" }
        let path = "\(Repository.root)/.build/libCFaults.so"
        let unfinished = "\(path)-\(getpid())"
        let (process, messages) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Swift's own compiler of C, which is beside swift.
        process.arguments = ["clang", "-shared", "-fPIC", "-O1", "-o", unfinished] + sources
        process.standardError = messages
        do {
            try process.run()
        } catch {
            throw NotBuilt(reason: "\(error)")
        }
        let text = String(decoding: messages.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        // Other processes may be using the one that is there.
        guard process.terminationStatus == 0, rename(unfinished, path) == 0 else { throw NotBuilt(reason: text) }
        return path
    }

    /// Bytes in an image that make a codec crash.
    public static let crash = Data(mark.utf8)
    private static let mark = "MEGATON-CRASH"

    /// Bytes in an image in which a codec hangs.
    public static let hang = Data(hangMark.utf8)
    private static let hangMark = "MEGATON-HANG"

    /// The environment of a worker whose codecs crash on an image that contains ``crash``. Without Swift's backtrace,
    /// which would take seconds.
    public static func crashingCodec() throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_CRASH": mark, "SWIFT_BACKTRACE": "enable=no"]
    }

    /// The environment of a worker whose codecs hang in an image that contains ``hang``.
    public static func hangingCodec() throws(NotBuilt) -> [String: String] {
        ["LD_PRELOAD": try path(), "MEGATON_HANG": hangMark]
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
