import Foundation
import MegatonPipeline

/// The file with one JSON line for each job, in the order in which they ended.
///
/// Lines are written whole, a block of them at a time, so that the file is readable however the run ends. One run at a time
/// writes it, and what an earlier one wrote stays until there is a batch to write of.
final class Ledger: Sendable {
    /// Nil where the lines go nowhere: who waits for a batch needs its outcomes, not always a file of them.
    let path: String?
    /// Of the file; -1 without one.
    private let descriptor: Int32
    private let thread = ThreadPool(name: "megaton-ledger", count: 1)

    /// - Throws: `Failure` where the file cannot be made, or another run writes it.
    init(_ path: String?) throws {
        self.path = path
        guard let path else {
            descriptor = -1
            return
        }
        let directory = (path as NSString).deletingLastPathComponent
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            throw Failure.output("the directory \(directory) cannot be made: \(Failure.reason(error)).")
        }
        // A mistyped option must not cost a picture: what is replaced is a ledger, or empty, or not there.
        let old = open(path, O_RDONLY | O_CLOEXEC)
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
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            throw Failure.output("the ledger \(path) cannot be written: \(String(cString: strerror(errno))).")
        }
        // Some file systems of networks have no locks: there nobody is kept out.
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK {
            Foundation.close(descriptor)
            throw Failure.output(
                "another run writes the ledger \(path). Wait for its end, or name another file with --ledger."
            )
        }
    }

    /// Forgets what an earlier run wrote.
    ///
    /// - Throws: `Failure` where it cannot.
    func begin() async throws {
        guard let path else { return }
        let code = try await thread.run { [descriptor] in ftruncate(descriptor, 0) == 0 ? 0 : errno }
        // What is no file, as /dev/stdout, has nothing to be forgotten.
        guard code == 0 || code == EINVAL else {
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
            try await thread.run { [block, descriptor] in try Self.write(block, to: descriptor) }
        } catch let error as WriteFailure {
            throw Failure.output("the ledger \(path) cannot be written: \(error)")
        }
    }

    /// What the kernel said, and whether the file ends with a whole line.
    private struct WriteFailure: Error, CustomStringConvertible {
        let code: Int32
        let isWhole: Bool

        var description: String {
            "\(String(cString: strerror(code))). It ends \(isWhole ? "with its last whole line" : "in the middle of a line")."
        }
    }

    /// Writes whole lines. Where there is no room for all of them, the one that was cut off is taken back.
    private static func write(_ block: Data, to descriptor: Int32) throws(WriteFailure) {
        var written = 0
        while written < block.count {
            let count = block.withUnsafeBytes {
                Foundation.write(descriptor, $0.baseAddress! + written, $0.count - written)
            }
            if count > 0 {
                written += count
                continue
            }
            let code = errno
            if count < 0 && code == EINTR { continue }
            let whole = block.prefix(written).lastIndex(of: 10).map { $0 + 1 } ?? 0
            let end = lseek(descriptor, 0, SEEK_CUR)
            let isWhole = whole == written || (end >= 0 && ftruncate(descriptor, end - off_t(written - whole)) == 0)
            throw WriteFailure(code: count < 0 ? code : EIO, isWhole: isWhole)
        }
    }

    func close() {
        thread.stop()
        // Everything was written by `append`, which told of what failed.
        if descriptor >= 0 { Foundation.close(descriptor) }
    }
}
