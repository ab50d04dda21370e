internal import Foundation

/// The files of a disk cache: 256 folders, one file per key. It does not decide which files are kept.
///
/// Every method blocks.
struct DataCacheFolder: Sendable {
    /// Attributes of a file.
    struct Info: Sendable, Equatable {
        /// Bytes.
        let size: Int
        /// Bytes on the disk. A file system with delayed allocation may report less than the file will occupy.
        let allocated: Int
        /// Time of the last use in nanoseconds since 1970. It is stored as the modification time, which is free for
        /// this because files are never modified; the kernel updates the access time by rules of its own (relatime,
        /// noatime).
        let used: Int64
        let inode: UInt64
    }

    enum Reading: Sendable {
        case found(Data, Info)
        case missing
        /// The file has another format, is cut short, or its bytes are not those that were written.
        case damaged(Info)
    }

    /// Writes all bytes to a descriptor; returns 0 or the `errno`. Tests of full disks replace it.
    typealias Writing = @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int32

    let path: String
    var writing: Writing = Self.writeAll

    private static let temporaryPrefix = ".tmp-"
    /// A younger temporary file may be in use by another process. Nanoseconds.
    static let temporaryLifetime: Int64 = 60 * 1_000_000_000

    func path(of folder: UInt8) -> String {
        "\(path)/\([folder].hexDigits)"
    }

    func path(of name: DataCacheFileName) -> String { "\(path(of: name.folder))/\(name.hex)" }

    func make() throws(DataCacheFault) { try Self.makeDirectory(path) }

    func contains(_ name: DataCacheFileName) -> Bool { access(path(of: name), F_OK) == 0 }

    // MARK: - Reading

    func read(_ name: DataCacheFileName) throws(DataCacheFault) -> Reading {
        let path = path(of: name)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return .missing }
            throw DataCacheFault("open", path)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw DataCacheFault("stat", path) }
        let info = Info(status)
        // Check the length first, so that the size of the file, not the header, limits the bytes read and the memory
        // allocated.
        guard status.st_mode & S_IFMT == S_IFREG, info.size >= DataCacheBlob.headerSize else { return .damaged(info) }
        let header = try Self.read(descriptor, DataCacheBlob.headerSize, path)
        guard let length = DataCacheBlob.length(header), length == info.size - DataCacheBlob.headerSize else {
            return .damaged(info)
        }
        let data = try Self.read(descriptor, length, path)
        guard data.count == length, DataCacheBlob.isIntact(data, header, name) else { return .damaged(info) }
        return .found(data, info)
    }

    private static func read(_ descriptor: Int32, _ count: Int, _ path: String) throws(DataCacheFault) -> Data {
        var data = Data(count: count)
        var filled = 0
        while filled < count {
            let result = data.withUnsafeMutableBytes {
                Foundation.read(descriptor, $0.baseAddress! + filled, count - filled)
            }
            if result < 0 && errno == EINTR { continue }
            if result < 0 { throw DataCacheFault("read", path) }
            if result == 0 { return data.prefix(filled) }
            filled += result
        }
        return data
    }

    // MARK: - Writing

    /// Writes a temporary file in the same folder and renames it, so that readers see the old or the new file, whole.
    ///
    /// - Parameter used: time of the last use, nanoseconds since 1970.
    func write(_ data: Data, _ name: DataCacheFileName, used: Int64) throws(DataCacheFault) -> Info {
        do {
            return try writeOnce(data, name, used: used)
        } catch {
            guard error.code == ENOENT else { throw error }
            // The folder is new, or the cache was deleted from outside.
            try Self.makeDirectory(path(of: name.folder))
            return try writeOnce(data, name, used: used)
        }
    }

    private func writeOnce(_ data: Data, _ name: DataCacheFileName, used: Int64) throws(DataCacheFault) -> Info {
        let random = String(UInt64.random(in: .min ... .max), radix: 36)
        let temporary = "\(path(of: name.folder))/\(Self.temporaryPrefix)\(getpid())-\(random)"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw DataCacheFault("write", temporary) }
        defer { close(descriptor) }
        do throws(DataCacheFault) {
            for part in [DataCacheBlob.header(of: data, name), data] {
                let code = part.withUnsafeBytes { writing(descriptor, $0) }
                if code != 0 { throw DataCacheFault("write", temporary, code: code) }
            }
            var times = Self.times(used)
            // If a file system refuses, the kernel's own time is nearly the same.
            futimens(descriptor, &times)
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw DataCacheFault("stat", temporary) }
            guard rename(temporary, path(of: name)) == 0 else { throw DataCacheFault("rename", temporary) }
            return Info(status)
        } catch {
            unlink(temporary)
            throw error
        }
    }

    /// Records when a file was last used, for other caches on the same folder and for later runs.
    func touch(_ name: DataCacheFileName, used: Int64) throws(DataCacheFault) {
        let path = path(of: name)
        var times = Self.times(used)
        guard utimensat(AT_FDCWD, path, &times, AT_SYMLINK_NOFOLLOW) == 0 || errno == ENOENT else {
            throw DataCacheFault("touch", path)
        }
    }

    /// - Parameter inode: if given, removes only the file with this inode number, because another file may have
    ///   replaced it.
    func remove(_ name: DataCacheFileName, inode: UInt64? = nil) throws(DataCacheFault) {
        let path = path(of: name)
        if let inode, info(name)?.inode != inode { return }
        // E.g. a directory in place of the file: it stays, and the error is reported.
        guard unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR else { throw DataCacheFault("remove", path) }
    }

    // MARK: - Listing

    func info(_ name: DataCacheFileName) -> Info? {
        var status = stat()
        return lstat(path(of: name), &status) == 0 ? Info(status) : nil
    }

    /// Lists the entries of one folder, and deletes temporary files whose writers died.
    func scan(_ folder: UInt8, date: Int64) throws(DataCacheFault) -> [DataCacheFileName: Info] {
        let path = path(of: folder)
        guard let directory = opendir(path) else {
            if errno == ENOENT { return [:] }
            throw DataCacheFault("list", path)
        }
        defer { closedir(directory) }
        var found: [DataCacheFileName: Info] = [:]
        while let entry = readdir(directory) {
            let file = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            let isTemporary = file.hasPrefix(Self.temporaryPrefix)
            guard let name = DataCacheFileName(hex: file[...]) else {
                if isTemporary { removeLeftover("\(path)/\(file)", date: date) }
                continue
            }
            if name.folder == folder { found[name] = info(name) }
        }
        return found
    }

    private func removeLeftover(_ path: String, date: Int64) {
        var status = stat()
        guard lstat(path, &status) == 0, date - Info(status).used > Self.temporaryLifetime else { return }
        // If this fails, the next scan tries again.
        unlink(path)
    }

    // MARK: -

    static let writeAll: Writing = { descriptor, bytes in
        var written = 0
        while written < bytes.count {
            let count = Foundation.write(descriptor, bytes.baseAddress! + written, bytes.count - written)
            if count < 0 && errno == EINTR { continue }
            if count < 0 { return errno }
            written += count
        }
        return 0
    }

    private static func times(_ used: Int64) -> [timespec] {
        let time = timespec(tv_sec: Int(used / 1_000_000_000), tv_nsec: Int(used % 1_000_000_000))
        return [time, time]
    }

    /// Creates a directory that only its owner can access: a cache may hold data fetched with credentials.
    private static func makeDirectory(_ path: String) throws(DataCacheFault) {
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw DataCacheFault("make directory", path, reason: FileAccess.reason(error, beneath: path))
        }
    }
}

extension DataCacheFolder.Info {
    init(_ status: stat) {
        size = Int(status.st_size)
        allocated = max(Int(status.st_blocks) * 512, Int(status.st_size))
        used = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
        inode = UInt64(status.st_ino)
    }
}
