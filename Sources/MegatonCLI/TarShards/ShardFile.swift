import Foundation
import MegatonCommandLine

/// An open file of a directory of shards. Its calls block.
struct ShardFile {
    let path: String
    let descriptor: Int32

    /// - Throws: `CLIError` if the file cannot be opened.
    init(_ path: String, flags: Int32 = O_RDWR | O_CREAT) throws(CLIError) {
        self.path = path
        descriptor = open(path, flags | O_CLOEXEC, 0o666)
        if descriptor < 0 { throw Self.error("cannot be opened", path) }
    }

    func close() { Foundation.close(descriptor) }

    func size() throws(CLIError) -> Int {
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { throw Self.error("cannot be read", path) }
        return Int(info.st_size)
    }

    /// Fewer bytes than asked for only at the end of the file.
    func read(_ count: Int, at offset: Int) throws(CLIError) -> Data {
        var data = Data(count: count)
        var done = 0
        while done < count {
            let read = data.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress! + done, count - done, off_t(offset + done))
            }
            if read == 0 { break }
            if read < 0 {
                if errno == EINTR { continue }
                throw Self.error("cannot be read", path)
            }
            done += read
        }
        return data.prefix(done)
    }

    func write(_ data: Data, at offset: Int) throws(CLIError) {
        var done = 0
        while done < data.count {
            let written = data.withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress! + done, data.count - done, off_t(offset + done))
            }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { throw Self.error("cannot be written", path) }
            done += written
        }
    }

    func truncate(to size: Int) throws(CLIError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw Self.error("cannot be shortened", path) }
    }

    /// Waits until the content is on the disk. Some network file systems cannot do that.
    func sync() throws(CLIError) {
        while fsync(descriptor) != 0 {
            if errno == EINTR { continue }
            if errno == EINVAL || errno == ENOSYS || errno == ENOTSUP { return }
            throw Self.error("cannot be written to the disk", path)
        }
    }

    static func rename(_ from: String, to: String) throws(CLIError) {
        guard Foundation.rename(from, to) == 0 else { throw error("cannot be given its final name \(to)", from) }
    }

    static func error(_ event: String, _ path: String) -> CLIError {
        let code = errno
        let remedy =
            [ENOSPC, EDQUOT].contains(code)
            ? " Make room; the same command again continues behind the last whole sample, and nothing is lost." : ""
        return .output("the shard file \(path) \(event): \(String(cString: strerror(code))).\(remedy)")
    }
}
