import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// The file with one JSON line per job, in the order in which the jobs ended.
///
/// Whole lines are written in blocks, so that the file is readable however the run ends. Only one run at a time writes
/// the file, and the lines of an earlier run stay until the new batch has begun. Standard output, a pipe or a device is
/// written without reading or truncating it.
final class Ledger: Sendable {
    /// Nil if the lines are discarded: a caller that waits for a batch needs its outcomes, but not always a file.
    let path: String?
    /// Descriptor of the file; -1 without one.
    private let descriptor: Int32
    /// Whether it is a regular file, which is truncated and locked.
    private let isFile: Bool
    /// Whether lines are on the disk when `append` returns: their reader then lets Redis delete them.
    private let isDurable: Bool
    /// Whether the lines of an earlier run stay.
    private let isContinued: Bool
    private let isAborted: @Sendable () -> Bool
    /// Gets the lines of a file after they were written; nil if no orphans are deleted.
    private let orphans: OrphanFinder?
    private let thread = ThreadPool(name: "megaton-ledger", count: 1)

    /// Time limit for a pipe without a reader to get one at the start.
    private static let readerTimeout: Duration = .seconds(5)
    /// Bytes that a pipe takes at once without blocking as soon as it takes any (PIPE_BUF of pipe(7)).
    private static let pipeBlock = 4096

    /// Opens the ledger.
    ///
    /// - Parameters:
    ///   - path: nil for none.
    ///   - isDurable: whether `append` waits for the disk, so that the lines of a file outlast the machine.
    ///   - isContinued: whether the lines of an earlier run stay: `resumedDigests` is called before the first line.
    ///   - orphans: gets the lines of a file after they were written.
    ///   - isAborted: whether to stop waiting for a reader that does not read.
    /// - Throws: `CLIError` if the file cannot be created, another run writes it, or the pipe has no reader.
    static func open(
        _ path: String?,
        isDurable: Bool = false,
        isContinued: Bool = false,
        orphans: OrphanFinder? = nil,
        isAborted: @escaping @Sendable () -> Bool
    ) async throws -> Ledger {
        guard let path else { return Ledger(nil, -1, isFile: false, isAborted) }
        if let descriptor = LedgerPath.descriptor(of: path) {
            guard StandardStreams.isWritable(descriptor) else {
                let name = descriptor == STDOUT_FILENO ? "standard output" : "the descriptor \(descriptor)"
                throw CLIError.output("the ledger cannot be written: \(name) is closed. Nothing was begun.")
            }
            return Ledger(path, try check(dup(descriptor), path), isFile: false, isAborted)
        }
        var info = stat()
        guard stat(path, &info) == 0, ![S_IFREG, S_IFDIR].contains(info.st_mode & S_IFMT) else {
            let descriptor = try file(path)
            return Ledger(
                path,
                descriptor,
                isFile: true,
                isDurable: isDurable,
                isContinued: isContinued,
                orphans: orphans,
                isAborted
            )
        }
        let deadline = ContinuousClock.now + readerTimeout
        while true {
            // Without O_NONBLOCK, the open of a pipe would wait for a reader without limit.
            let descriptor = Foundation.open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if descriptor >= 0 { return Ledger(path, descriptor, isFile: false, isAborted) }
            guard errno == ENXIO else { return Ledger(path, try check(descriptor, path), isFile: false, isAborted) }
            guard ContinuousClock.now < deadline, !isAborted() else {
                throw CLIError.output("the ledger \(path) is a pipe that no process reads.")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    private init(
        _ path: String?,
        _ descriptor: Int32,
        isFile: Bool,
        isDurable: Bool = false,
        isContinued: Bool = false,
        orphans: OrphanFinder? = nil,
        _ isAborted: @escaping @Sendable () -> Bool
    ) {
        self.path = path
        self.orphans = orphans
        self.isDurable = isDurable
        self.isContinued = isContinued
        self.descriptor = descriptor
        self.isFile = isFile
        self.isAborted = isAborted
    }

    private static func check(_ descriptor: Int32, _ path: String) throws -> Int32 {
        guard descriptor >= 0 else {
            throw CLIError.output("\(LedgerPath.name(path)) cannot be written: \(String(cString: strerror(errno))).")
        }
        return descriptor
    }

    private static func file(_ path: String) throws -> Int32 {
        let directory = (path as NSString).deletingLastPathComponent
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw CLIError.output("the directory \(directory) cannot be created: \(CLIError.reason(error)).")
        }
        // A mistyped option must not destroy an image, a list of jobs or credentials: the file may be replaced only if
        // it is a ledger, empty, or missing.
        let old = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard old >= 0 || errno == ENOENT else {
            throw CLIError.output("the ledger \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        if old >= 0 {
            defer { Foundation.close(old) }
            guard let beginning = beginning(of: old) else {
                throw CLIError.output("the ledger \(path) cannot be read: \(String(cString: strerror(errno))).")
            }
            if !isLedger(beginning) && !FileAccess.isBlank(old) {
                throw CLIError.usage(
                    "\(path) exists and is not a ledger, so it is not overwritten. Name another file with --ledger."
                )
            }
        }
        let descriptor = try check(Foundation.open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666), path)
        // Some network file systems have no locks, and there a second run is not kept out.
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK {
            Foundation.close(descriptor)
            throw CLIError.output(
                "another run writes the ledger \(path). Wait until it ends, or name another file with --ledger."
            )
        }
        return descriptor
    }

    /// Fields that the lines of all versions have.
    private struct OutcomeFields: Decodable {
        let source: String
        let status: String
    }

    /// Bytes that have the first line of a ledger.
    private static let firstLine = 1024 * 1024

    /// The first bytes of a file; nil after an error, which `errno` has.
    private static func beginning(of descriptor: Int32) -> Data? {
        var bytes = Data(count: firstLine)
        var length = 0
        while length < firstLine {
            let count = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + length, firstLine - length) }
            if count == 0 { break }
            if count < 0, errno == EINTR { continue }
            if count < 0 { return nil }
            length += count
        }
        return bytes.prefix(length)
    }

    /// Whether a file may be a ledger by its first line: it is an outcome, or one that was cut off.
    private static func isLedger(_ beginning: Data) -> Bool {
        let line = beginning.drop { $0 == 10 }.prefix { $0 != 10 }
        if line.isEmpty { return true }
        if (try? JSONDecoder().decode(OutcomeFields.self, from: Data(line))) != nil { return true }
        return line.endIndex == beginning.endIndex && beginning.count < firstLine
            && line.starts(with: #"{"attempts":"#.utf8)
    }

    /// Removes the lines of an earlier run, unless they stay.
    ///
    /// - Throws: `CLIError` if that fails.
    func begin() async throws {
        guard let path, isFile, !isContinued else { return }
        let code = try await thread.run { [descriptor] in ftruncate(descriptor, 0) == 0 ? 0 : errno }
        guard code == 0 else {
            throw CLIError.output("\(LedgerPath.name(path)) cannot be written: \(String(cString: strerror(code))).")
        }
    }

    /// Continues the lines of an earlier reader. A last line that was cut off is removed.
    ///
    /// - Parameter mark: of the batch in Redis, as for ``OutcomeHistory``.
    /// - Returns: the outcomes that the file has; none if it is a pipe or a device.
    /// - Throws: `CLIError` if the file cannot be read.
    func resume(at mark: String) async throws -> OutcomeHistory {
        guard let path, isFile else { return OutcomeHistory() }
        return try await reading(path) { nextLine in try OutcomeHistory(lines: nextLine, mark: mark) }
    }

    /// Reads the whole lines of the file, and continues behind them.
    private func reading<Value: Sendable>(
        _ path: String,
        _ body: @escaping @Sendable (() throws -> Data?) throws -> Value
    ) async throws -> Value {
        do {
            return try await thread.run { [descriptor] in
                var lines = try WholeLines(path)
                defer { lines.close() }
                let value = try body { try lines.next() }
                guard ftruncate(descriptor, lines.end) == 0, lseek(descriptor, lines.end, SEEK_SET) >= 0 else {
                    throw ReadFailure(code: errno)
                }
                return value
            }
        } catch let error as ReadFailure {
            throw CLIError.output("the ledger \(path) cannot be continued: \(String(cString: strerror(error.code))).")
        }
    }

    /// The same for a reader that compares lines.
    func resumedLines() async throws -> LedgerLines {
        guard let path, isFile else { return LedgerLines() }
        return try await reading(path) { nextLine in
            var known = LedgerLines()
            while let line = try nextLine() { known.add(line) }
            return known
        }
    }

    /// The same for a reader that looks up single lines.
    ///
    /// - Parameter note: gets each line; its error ends the reading.
    /// - Returns: digests of the lines; nil if it is no file.
    func resumedDigests(_ note: @escaping @Sendable (Data) throws -> Void) async throws -> Set<ShortDigest>? {
        guard let path, isFile else { return nil }
        return try await reading(path) { nextLine in
            var digests: Set<ShortDigest> = []
            while let line = try nextLine() {
                digests.insert(ShortDigest(of: line))
                try note(line)
            }
            return digests
        }
    }

    /// - Throws: `CLIError` if the lines cannot be written, e.g. to a full disk. The file then ends with its last whole
    ///   line.
    func append(_ lines: [Data]) async throws {
        guard let path else { return }
        var block = Data()
        for line in lines {
            block.append(line)
            block.append(10)
        }
        do {
            try await thread.run { [self, block] in
                try write(block)
                if isDurable { try sync() }
                orphans?.note(outcomes: lines)
            }
        } catch let error as WriteFailure {
            throw CLIError.output("\(LedgerPath.name(path)) cannot be written: \(error)")
        }
    }

    /// The error of the kernel, and whether the file ends with a whole line.
    private struct WriteFailure: Error, CustomStringConvertible {
        let code: Int32
        let isWhole: Bool

        var description: String {
            let reason = code == EPIPE ? "its reader has ended" : String(cString: strerror(code))
            return "\(reason). It ends \(isWhole ? "with its last whole line" : "in the middle of a line")."
        }
    }

    /// Writes whole lines. If there is no room for all of them, the line that was cut off is removed.
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

    /// Waits until the lines are on the disk. Some network file systems cannot do that.
    private func sync() throws(WriteFailure) {
        while fdatasync(descriptor) != 0 {
            let code = errno
            if code == EINTR { continue }
            if code == EINVAL || code == ENOSYS || code == ENOTSUP { return }
            throw WriteFailure(code: code, isWhole: true)
        }
    }

    /// Waits a moment for the reader. Sets `errno` if the result is false.
    private var isWritable: Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        let count = poll(&request, 1, 200)
        if count == 0 { errno = EAGAIN }
        return count > 0
    }

    func close() {
        thread.stop()
        // `append` has written everything, or reported its failure.
        if descriptor >= 0 { Foundation.close(descriptor) }
    }
}

/// The lines of a ledger, to find the same ones again: by 128 bits, about 40 bytes each. Duplicates of a job may have
/// equal lines, so that they are counted.
struct LedgerLines: Sendable {
    private struct Line: Hashable {
        let low: UInt64
        let high: UInt64

        init(_ line: Data) { (low, high) = OutcomeHistory.identity(of: line) }
    }

    private var counts: [Line: Int] = [:]
    /// Number of lines that may come again.
    private(set) var count = 0

    mutating func add(_ line: Data) {
        counts[Line(line), default: 0] += 1
        count += 1
    }

    /// Expects no more lines than these again: Redis has deleted the others.
    mutating func limit(to count: Int) { self.count = max(min(self.count, count), 0) }

    /// Returns those of the lines that the ledger does not have. A line that it has once is left out once.
    mutating func missing(from lines: [Data]) -> [Data] {
        if count == 0 { return lines }
        return lines.filter { text in
            let line = Line(text)
            guard count > 0, let known = counts[line] else { return true }
            counts[line] = known == 1 ? nil : known - 1
            count -= 1
            return false
        }
    }
}

/// The error of the kernel.
private struct ReadFailure: Error {
    let code: Int32
}

/// The lines of a file that end with a line end, without empty ones.
private struct WholeLines {
    private let descriptor: Int32
    private var buffer = Data()
    /// Bytes of the file that were read into the buffer so far.
    private var position: off_t = 0

    private static let block = 1024 * 1024

    init(_ path: String) throws {
        descriptor = Foundation.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw ReadFailure(code: errno) }
    }

    /// The end of the last whole line that was read.
    var end: off_t { position - off_t(buffer.count) }

    mutating func next() throws -> Data? {
        var searched = 0
        while true {
            if let end = buffer[(buffer.startIndex + searched)...].firstIndex(of: 10) {
                let line = buffer[buffer.startIndex..<end]
                buffer = buffer[(end + 1)...]
                if !line.isEmpty { return Data(line) }
                searched = 0
                continue
            }
            searched = buffer.count
            var block = Data(count: Self.block)
            let count = block.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, Self.block) }
            if count == 0 { return nil }
            guard count > 0 else {
                if errno == EINTR { continue }
                throw ReadFailure(code: errno)
            }
            position += off_t(count)
            buffer = Data(buffer) + block.prefix(count)
        }
    }

    func close() { Foundation.close(descriptor) }
}
