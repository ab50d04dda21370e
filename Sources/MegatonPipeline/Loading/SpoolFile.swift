package import Foundation
import Synchronization

/// A temporary file without a name: it is gone with the last user of its bytes, also if the process is killed.
///
/// Its bytes belong to the page cache, which the system can write out and take back.
package final class SpoolFile: Sendable {
    /// Why a file cannot be made or written.
    package struct Fault: Error {
        let code: Int32
        let directory: String

        /// Whether there is no room, which another attempt may find.
        var isFull: Bool { [ENOSPC, EDQUOT].contains(code) }
        var reason: String { "\(directory): \(String(cString: strerror(code)))" }
    }

    private let descriptor: Int32
    private let directory: String

    /// O_TMPFILE of open(2), which is a macro that Swift cannot read.
    private static let withoutName: Int32 = 0o20000000 | O_DIRECTORY

    /// - Parameter directory: nil for `TMPDIR`, or the first of `/var/tmp` and `/tmp` that can be written to: the second
    ///   is memory on many systems.
    package init(in directory: String?) throws(Fault) {
        var fault = Fault(code: ENOENT, directory: "/var/tmp")
        for place in directory.map({ [$0] }) ?? Self.usualPlaces {
            do throws(Fault) {
                descriptor = try Self.open(place)
                self.directory = place
                return
            } catch {
                fault = error
                if error.isFull { break }
            }
        }
        throw fault
    }

    /// - Parameter descriptor: of an open file, which is closed with this object.
    init(descriptor: Int32, directory: String) {
        self.descriptor = descriptor
        self.directory = directory
    }

    deinit { close(descriptor) }

    private static let usualPlaces: [String] = {
        // Foundation heeds TMPDIR, and says /tmp without it.
        let chosen = FileManager.default.temporaryDirectory.path
        return chosen == "/tmp" ? ["/var/tmp", "/tmp"] : [chosen]
    }()

    private static func open(_ directory: String) throws(Fault) -> Int32 {
        let unnamed = Foundation.open(directory, withoutName | O_RDWR | O_CLOEXEC, 0o600)
        if unnamed >= 0 { return unnamed }
        // Not all file systems know it; an old kernel takes it for a directory to be written to.
        guard [EOPNOTSUPP, EISDIR, EINVAL].contains(errno) else { throw Fault(code: errno, directory: directory) }
        let path = "\(directory)/.megaton-\(UUID().uuidString)"
        let named = Foundation.open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0o600)
        guard named >= 0 else { throw Fault(code: errno, directory: directory) }
        unlink(path)
        return named
    }

    package func write(_ data: Data, at offset: Int) throws(Fault) {
        let code = data.withUnsafeBytes { bytes -> Int32 in
            var written = 0
            while written < bytes.count {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
                let count = pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written))
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { return count < 0 ? errno : ENOSPC }
                written += count
            }
            return 0
        }
        if code != 0 { throw Fault(code: code, directory: directory) }
    }

    /// Copies another file within the kernel.
    ///
    /// - Returns: false if that one has fewer bytes.
    func fill(from source: Int32, _ count: Int) throws(Fault) -> Bool {
        var left = count
        while left > 0 {
            let copied = sendfile(descriptor, source, nil, left)
            if copied < 0 && errno == EINTR { continue }
            if copied < 0 { throw Fault(code: errno, directory: directory) }
            if copied == 0 { return false }
            left -= copied
        }
        return true
    }

    /// Its first bytes, mapped: they stay as they are while more is written behind them.
    package func bytes(_ count: Int) throws(Fault) -> Data {
        if count == 0 { return Data() }
        guard let start = mmap(nil, count, PROT_READ, MAP_PRIVATE, descriptor, 0), start != MAP_FAILED else {
            throw Fault(code: errno, directory: directory)
        }
        Self.mappings.withLock { $0[UInt(bitPattern: start)] = count }
        return Data(
            bytesNoCopy: start,
            count: count,
            deallocator: .custom { start, count in
                SpoolFile.mappings.withLock { $0[UInt(bitPattern: start)] = nil }
                munmap(start, count)
            }
        )
    }

    // MARK: - Resident pages

    /// Bytes of each mapping by its address.
    private static let mappings = Mutex<[UInt: Int]>([:])

    /// Lets go of a mapping's pages, which count as this process's memory once they have been read. They are read from the
    /// file again if they are needed again.
    ///
    /// - Parameter data: anything; only the bytes of a file are let go of.
    package static func releasePages(of data: Data) {
        if bytes(of: data) == 0 { return }
        data.withUnsafeBytes { bytes in
            _ = madvise(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count, MADV_DONTNEED)
        }
    }

    /// How many of the bytes are those of a file: all or none.
    package static func bytes(of data: Data) -> Int {
        data.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return 0 }
            return mappings.withLock { $0[UInt(bitPattern: start)] } == bytes.count ? bytes.count : 0
        }
    }
}
