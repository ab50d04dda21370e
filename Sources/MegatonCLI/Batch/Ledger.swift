import Foundation
import MegatonPipeline

/// The file with one JSON line for each job, in the order in which they ended.
///
/// Lines are written whole, a block of them at a time, so that the file is readable however the run ends. One run at a time
/// writes it, and the lines of an earlier one stay until there is a batch to write of. Standard output, a pipe or a
/// device is written as it is, and its content is not read.
final class Ledger: Sendable {
    /// Nil where the lines go nowhere: who waits for a batch needs its outcomes, not always a file of them.
    let path: String?
    /// Of the file; -1 without one.
    private let descriptor: Int32
    /// Whether it is a file of its own, which is begun anew and locked.
    private let isFile: Bool
    private let isAborted: @Sendable () -> Bool
    private let thread = ThreadPool(name: "megaton-ledger", count: 1)

    /// The path that stands for standard output.
    static let standardOutput = "-"

    /// How long a pipe may have no reader at the start.
    private static let readerPatience: Duration = .seconds(5)
    /// Bytes that a pipe takes at once without blocking, as soon as it takes any (PIPE_BUF of pipe(7)).
    private static let pipeBlock = 4096

    /// The absolute path, or ``standardOutput`` for each name that it has.
    static func path(_ text: String) -> String {
        if ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(text) { return standardOutput }
        return RunPlaces.absolute(text)
    }

    /// The open descriptor that a path stands for, if it does. Opening a file by such a name would begin at its start.
    static func descriptor(of path: String) -> Int32? {
        if Self.path(path) == standardOutput { return STDOUT_FILENO }
        if path == "/dev/stderr" { return STDERR_FILENO }
        for start in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(start) {
            return Int32(path.dropFirst(start.count)).flatMap { fcntl($0, F_GETFD) >= 0 ? $0 : nil }
        }
        return nil
    }

    /// - Parameters:
    ///   - path: nil for none.
    ///   - isAborted: whether a reader that does not read is no longer waited for.
    /// - Throws: `Failure` if the file cannot be made, another run writes it, or the pipe has no reader.
    static func open(_ path: String?, isAborted: @escaping @Sendable () -> Bool) async throws -> Ledger {
        guard let path else { return Ledger(nil, -1, isFile: false, isAborted) }
        if let descriptor = descriptor(of: path) {
            return Ledger(path, try check(dup(descriptor), path), isFile: false, isAborted)
        }
        var info = stat()
        guard stat(path, &info) == 0, ![S_IFREG, S_IFDIR].contains(info.st_mode & S_IFMT) else {
            return Ledger(path, try file(path), isFile: true, isAborted)
        }
        let deadline = ContinuousClock.now + readerPatience
        while true {
            // Without a reader the open of a pipe would wait, however long that takes.
            let descriptor = Foundation.open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if descriptor >= 0 { return Ledger(path, descriptor, isFile: false, isAborted) }
            guard errno == ENXIO else { return Ledger(path, try check(descriptor, path), isFile: false, isAborted) }
            guard ContinuousClock.now < deadline, !isAborted() else {
                throw Failure.output("the ledger \(path) is a pipe that no process reads.")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private init(_ path: String?, _ descriptor: Int32, isFile: Bool, _ isAborted: @escaping @Sendable () -> Bool) {
        self.path = path
        self.descriptor = descriptor
        self.isFile = isFile
        self.isAborted = isAborted
    }

    private static func check(_ descriptor: Int32, _ path: String) throws -> Int32 {
        guard descriptor >= 0 else {
            throw Failure.output("the ledger \(path) cannot be written: \(String(cString: strerror(errno))).")
        }
        return descriptor
    }

    private static func file(_ path: String) throws -> Int32 {
        let directory = (path as NSString).deletingLastPathComponent
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw Failure.output("the directory \(directory) cannot be made: \(Failure.reason(error)).")
        }
        // A mistyped option must not cost a picture: what is replaced is a ledger, or empty, or not there.
        let old = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard old >= 0 || errno == ENOENT else {
            throw Failure.output("the ledger \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        if old >= 0 {
            defer { Foundation.close(old) }
            var first: UInt8 = 0
            let count = read(old, &first, 1)
            guard count >= 0 else {
                throw Failure.output("the ledger \(path) cannot be read: \(String(cString: strerror(errno))).")
            }
            if count > 0, first != UInt8(ascii: "{") {
                throw Failure.usage(
                    "\(path) is there and no ledger; it is not overwritten. Name another file with --ledger."
                )
            }
        }
        let descriptor = try check(Foundation.open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666), path)
        // Some file systems of networks have no locks: there nobody is kept out.
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK {
            Foundation.close(descriptor)
            throw Failure.output(
                "another run writes the ledger \(path). Wait for its end, or name another file with --ledger."
            )
        }
        return descriptor
    }

    /// Forgets what an earlier run wrote.
    ///
    /// - Throws: `Failure` where it cannot.
    func begin() async throws {
        guard let path, isFile else { return }
        let code = try await thread.run { [descriptor] in ftruncate(descriptor, 0) == 0 ? 0 : errno }
        guard code == 0 else {
            throw Failure.output("the ledger \(path) cannot be written: \(String(cString: strerror(code))).")
        }
    }

    /// - Throws: `Failure` where the disk is full, say. The file ends with its last whole line then.
    func append(_ lines: [Data]) async throws {
        guard let path else { return }
        var block = Data()
        for line in lines {
            block.append(line)
            block.append(10)
        }
        do {
            try await thread.run { [self, block] in try write(block) }
        } catch let error as WriteFailure {
            throw Failure.output("the ledger \(path) cannot be written: \(error)")
        }
    }

    /// What the kernel said, and whether the file ends with a whole line.
    private struct WriteFailure: Error, CustomStringConvertible {
        let code: Int32
        let isWhole: Bool

        var description: String {
            let reason = code == EPIPE ? "its reader has ended" : String(cString: strerror(code))
            return "\(reason). It ends \(isWhole ? "with its last whole line" : "in the middle of a line")."
        }
    }

    /// Writes whole lines. Where there is no room for all of them, the one that was cut off is taken back.
    private func write(_ block: Data) throws(WriteFailure) {
        var written = 0
        while written < block.count {
            let size = isFile ? block.count - written : min(Self.pipeBlock, block.count - written)
            let count =
                isFile || isWritable
                ? block.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress! + written, size) } : -1
            if count > 0 {
                written += count
                continue
            }
            let code = errno
            if count < 0 && (code == EINTR || (code == EAGAIN && !isAborted())) { continue }
            let whole = block.prefix(written).lastIndex(of: 10).map { $0 + 1 } ?? 0
            let end = lseek(descriptor, 0, SEEK_CUR)
            let isWhole = whole == written || (end >= 0 && ftruncate(descriptor, end - off_t(written - whole)) == 0)
            throw WriteFailure(code: count < 0 ? code : EIO, isWhole: isWhole)
        }
    }

    /// Waits a moment for the reader. Sets `errno` if the answer is false.
    private var isWritable: Bool {
        var look = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        let count = poll(&look, 1, 200)
        if count == 0 { errno = EAGAIN }
        return count > 0
    }

    func close() {
        thread.stop()
        // Everything was written by `append`, which told of what failed.
        if descriptor >= 0 { Foundation.close(descriptor) }
    }
}
