package import Foundation
import Synchronization

/// An unnamed temporary file: it is removed with the last user of its bytes, even if the process is killed.
///
/// Its bytes are in the page cache, which the system can write to disk and reclaim.
package final class SpoolFile: Sendable {
    /// Why a file cannot be created or written.
    package struct Fault: Error {
        let code: Int32
        let directory: String

        /// Whether there is no space, which a later attempt may find.
        var isFull: Bool { [ENOSPC, EDQUOT].contains(code) }
        var reason: String { "\(directory): \(String(cString: strerror(code)))" }
    }

    private let descriptor: Int32
    private let directory: String

    /// `O_TMPFILE` of open(2), a macro that Swift cannot import.
    private static let withoutName: Int32 = 0o20000000 | O_DIRECTORY

    /// - Parameter directory: nil for `TMPDIR`, or the first writable one of `/var/tmp` and `/tmp`: the second is in
    ///   memory on many systems.
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
        // Foundation uses TMPDIR, or /tmp if that is not set.
        let chosen = FileManager.default.temporaryDirectory.path
        return chosen == "/tmp" ? ["/var/tmp", "/tmp"] : [chosen]
    }()

    private static func open(_ directory: String) throws(Fault) -> Int32 {
        let unnamed = Foundation.open(directory, withoutName | O_RDWR | O_CLOEXEC, 0o600)
        if unnamed >= 0 { return unnamed }
        // Some file systems do not support O_TMPFILE; an old kernel sees an attempt to open a directory for writing.
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

    /// Copies bytes of another file within the kernel.
    ///
    /// - Returns: false if that file has fewer bytes.
    package func fill(from source: Int32, _ count: Int) throws(Fault) -> Bool {
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

    /// Maps the first bytes. They do not change while more are written after them.
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

    /// Size of each mapping in bytes, by its address.
    private static let mappings = Mutex<[UInt: Int]>([:])

    /// Releases the pages of a mapping, which count as this process's memory once they have been read. They are read
    /// from the file again when needed.
    ///
    /// - Parameter data: any data; only bytes mapped from a file are released.
    package static func releasePages(of data: Data) {
        if bytes(of: data) == 0 { return }
        data.withUnsafeBytes { bytes in
            _ = madvise(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count, MADV_DONTNEED)
        }
    }

    /// Number of bytes that are mapped from a file: all or none.
    package static func bytes(of data: Data) -> Int {
        data.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return 0 }
            return mappings.withLock { $0[UInt(bitPattern: start)] } == bytes.count ? bytes.count : 0
        }
    }
}
