public import Foundation
internal import MegatonCore
package import SystemPackage

/// Reads source files, and checks output paths, beneath allowed roots only.
///
/// Containment is by path components of the resolved path: neither `..` nor a link leads out, and `/srv/a` does not
/// contain `/srv/ab`. All calls block.
public struct FileAccess: Sendable {
    /// A file that may be read.
    package struct File: Sendable, Hashable {
        /// Absolute path, links resolved.
        package let path: String
        /// Size, bytes.
        package let size: Int
        /// Modification time, nanoseconds since 1970.
        package let modified: Int

        /// Part of the cache keys of everything made from the file, as files have no validators. If a file changes
        /// twice within one tick of the file system's clock (some milliseconds) and keeps its size, the second change
        /// goes unnoticed.
        var revision: String { "\(size) \(modified)" }
    }

    /// Compared by bytes, as the file system does: Swift's strings are equal if they differ only in Unicode
    /// normalization.
    private let roots: [FilePath]
    private let outputRoots: [FilePath]
    /// Those of them that were there at first.
    private let presentRoots: Set<FilePath>

    /// - Parameters:
    ///   - roots: absolute paths of directories to read from; resolved now, so a root may itself be a link.
    ///   - outputRoots: directories for outputs; `roots` if nil.
    public init(roots: [String], outputRoots: [String]? = nil) {
        self.roots = roots.map { Self.realPath($0) ?? Self.filePath($0) }
        self.outputRoots = outputRoots?.map { Self.realPath($0) ?? Self.filePath($0) } ?? self.roots
        presentRoots = Set((outputRoots ?? roots).compactMap(Self.realPath))
    }

    /// - Parameter roots: `file:` URLs of directories, used like the paths of the other initializer. Other URLs allow
    ///   nothing.
    @_disfavoredOverload public init(roots: [URL]) {
        self.init(roots: roots.filter(\.isFileURL).map { $0.path(percentEncoded: false) })
    }

    /// Roots that hold files of the system and its processes rather than images.
    private static let revealing: Set<FilePath> = ["/", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/var"]

    /// Looks up a source file.
    ///
    /// - Throws: `.notFound`, `.forbidden` or `.accessDenied`.
    package func file(at path: String) throws(ImageError) -> File {
        try refuseOddities(path)
        guard let real = Self.realPath(path) else {
            let failure = Self.readError(path)
            // Outside of the roots the error must not reveal which files exist.
            try requireRoot(of: Self.resolved(Self.filePath(path)).path, asked: path)
            throw failure
        }
        try requireRoot(of: real, asked: path)
        let resolved = real.string
        var info = stat()
        guard stat(resolved, &info) == 0 else { throw Self.readError(path) }
        guard info.st_mode & S_IFMT != S_IFDIR else {
            throw ImageError(.forbidden, "\(path) is a directory, not a file.")
        }
        guard info.st_mode & S_IFMT == S_IFREG else {
            throw ImageError(.forbidden, "\(path) is not a regular file.")
        }
        return File(path: resolved, info)
    }

    /// Reads a whole file.
    ///
    /// - Parameter limit: bytes.
    /// - Throws: `.dataTooLarge`, `.incompleteBody` if the file changed while it was read, `.accessDenied`.
    package func read(_ file: File, limit: Int) throws(ImageError) -> Data {
        try read(file, limit: limit, BodySpool())
    }

    /// Reads a whole file; copies a large one into an unnamed temporary file. The source itself is not mapped, because
    /// another process may truncate it.
    func read(_ file: File, limit: Int, _ spool: BodySpool) throws(ImageError) -> Data {
        guard file.size <= limit else {
            throw ImageError(
                .dataTooLarge,
                "\(file.path) has \(file.size) bytes; the limit is \(limit) "
                    + "(ImagePipeline.Configuration.maximumDataSize)."
            )
        }
        // The path is resolved: if its last component is a link now, it was replaced since.
        let descriptor = Foundation.open(file.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.readError(file.path) }
        defer { close(descriptor) }
        // The opened file may not be the one that was looked up, or it may have been moved.
        guard let opened = Self.openedPath(descriptor) else { throw Self.readError(file.path) }
        try requireRoot(of: opened, asked: file.path)
        try Self.requireUnchanged(file, descriptor)
        let data: Data
        if file.size > spool.threshold, let copy = try spool.makeFile() {
            let bytes: Data?
            do throws(SpoolFile.Fault) {
                bytes = try copy.fill(from: descriptor, file.size) ? copy.bytes(file.size) : nil
            } catch {
                throw BodySpool.full(error)
            }
            guard let bytes else { throw Self.changed(file) }
            data = bytes
        } else {
            data = try Self.bytes(file, descriptor)
        }
        // The bytes may be of two revisions, or of another one than the cache key says.
        try Self.requireUnchanged(file, descriptor)
        return data
    }

    private static func bytes(_ file: File, _ descriptor: Int32) throws(ImageError) -> Data {
        var data = Data(count: file.size)
        let count = data.withUnsafeMutableBytes { buffer in
            var filled = 0
            while filled < buffer.count {
                let count = Foundation.read(descriptor, buffer.baseAddress! + filled, buffer.count - filled)
                if count < 0 && errno == EINTR { continue }
                if count <= 0 { break }
                filled += count
            }
            return filled
        }
        guard count == file.size else { throw changed(file) }
        return data
    }

    /// Checks the path of an output and creates its directory.
    ///
    /// - Returns: the directory, links resolved, and the name of the file.
    /// - Throws: `.forbidden`, `.diskFull` or `.outputFailed`.
    func prepareOutput(at path: String) throws(ImageError) -> (directory: String, name: String) {
        try refuseOddities(path)
        let asked = Self.filePath(path)
        guard let name = asked.lastComponent?.string else {
            throw ImageError(.forbidden, "\(path) names no file.")
        }
        // The existing part of the path is resolved and checked before anything is created beneath it.
        let (resolved, base) = Self.resolved(asked.removingLastComponent())
        try requireOutputRoot(of: resolved, asked: path)
        let directory = resolved.string
        if resolved != base {
            try requireRootNotGone(resolved, beneath: base)
            do {
                try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            } catch {
                let fault = error as? CocoaError
                let isFull = fault?.code == .fileWriteOutOfSpace
                var refusal = ImageError(
                    isFull ? .diskFull : .outputFailed,
                    "The directory \(directory) cannot be created: \(Self.reason(error, beneath: base.string))."
                )
                let code = (fault?.underlying as? POSIXError)?.code.rawValue
                refusal.isOfStorage =
                    isFull || fault?.code == .fileWriteVolumeReadOnly || code.map(Self.storageCodes.contains) ?? false
                throw refusal
            }
        }
        return (directory, name)
    }

    /// Refuses to create an output root again that was there at first: its disk may be gone, and the outputs would fill
    /// another one.
    private func requireRootNotGone(_ directory: FilePath, beneath base: FilePath) throws(ImageError) {
        guard let root = presentRoots.first(where: { directory.starts(with: $0) && !base.starts(with: $0) }) else {
            return
        }
        var refusal = ImageError(
            .outputFailed,
            "The output root \(root) was there before and is gone; nothing is written beneath it. If it is on another "
                + "disk, mount that; otherwise create the directory."
        )
        refusal.isOfStorage = true
        throw refusal
    }

    /// Why a directory cannot be created.
    ///
    /// - Parameter base: the part of its path that exists.
    package static func reason(_ error: any Error, beneath base: String) -> String {
        var info = stat()
        if stat(base, &info) == 0, info.st_mode & S_IFMT != S_IFDIR {
            return "\(base) is not a directory"
        }
        if let code = ((error as? CocoaError)?.underlying as? POSIXError)?.code {
            return String(cString: strerror(code.rawValue))
        }
        let text = error.localizedDescription
        return text.hasSuffix(".") ? String(text.dropLast()) : text
    }

    /// An output's directory beneath an allowed root. Files created through its descriptor are in it, even if the path
    /// is replaced meanwhile.
    package struct OutputDirectory: Sendable {
        /// Opened with `O_PATH`; the caller closes it.
        package let descriptor: Int32
        /// Path of the directory, links resolved.
        package let path: String
        /// Name of the file.
        package let name: String
    }

    /// Checks the path of an output, creates its directory and opens it.
    ///
    /// - Throws: `.forbidden`, `.diskFull` or `.outputFailed`.
    package func openOutput(at path: String) throws(ImageError) -> OutputDirectory {
        try refuseOddities(path)
        if let place = openExisting(path) { return place }
        let (directory, name) = try prepareOutput(at: path)
        return OutputDirectory(descriptor: try open(directory: directory, asked: path), path: directory, name: name)
    }

    /// Faults of a disk, which another machine need not have.
    package static let storageCodes: Set<Int32> = [ENOSPC, EDQUOT, EROFS, EIO]

    /// `O_PATH` of open(2), a macro that Swift cannot import.
    private static let pathOnly: Int32 = 0o10000000

    /// Opens the directory of an output if it exists and is allowed, which nearly all are: that is cheaper than to
    /// resolve its path first. Nil leaves the output to `prepareOutput`, which names the problem.
    private func openExisting(_ path: String) -> OutputDirectory? {
        let directory = path.directoryPart
        let name = String(path.utf8.dropFirst(directory.utf8.count)) ?? ""
        if name.isEmpty || name == "." { return nil }
        let descriptor = Foundation.open(String(directory), Self.pathOnly | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        guard let opened = Self.openedPath(descriptor), outputRoots.contains(where: opened.starts) else {
            close(descriptor)
            return nil
        }
        return OutputDirectory(descriptor: descriptor, path: opened.string, name: name)
    }

    /// Opens a checked directory and checks it again: it may have been replaced by a link.
    func open(directory: String, asked path: String) throws(ImageError) -> Int32 {
        let descriptor = Foundation.open(directory, Self.pathOnly | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let code = errno
            var refusal = ImageError(
                .outputFailed,
                "The directory \(directory) cannot be opened: \(String(cString: strerror(code))).",
                isRetryable: [EIO, EMFILE, ENFILE].contains(code)
            )
            refusal.isOfStorage = Self.storageCodes.contains(code)
            throw refusal
        }
        do throws(ImageError) {
            guard let opened = Self.openedPath(descriptor) else { throw Self.readError(directory) }
            try requireOutputRoot(of: opened, asked: path)
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    // MARK: -

    private func refuseOddities(_ path: String) throws(ImageError) {
        guard path.utf8.first == UInt8(ascii: "/") else {
            throw ImageError(.forbidden, "\"\(path)\" is not an absolute path.")
        }
        if path.utf8.contains(0) { throw ImageError(.forbidden, "A path must not contain NUL.") }
        if path.hasParentComponent {
            throw ImageError(.forbidden, "\"\(path)\" contains \"..\".")
        }
    }

    private func requireRoot(of resolved: FilePath, asked: String) throws(ImageError) {
        if roots.contains(where: resolved.starts) { return }
        throw Self.outside(asked, roots, "root", "roots")
    }

    private func requireOutputRoot(of resolved: FilePath, asked: String) throws(ImageError) {
        if outputRoots.contains(where: resolved.starts) { return }
        throw Self.outside(asked, outputRoots, "output root", "output roots")
    }

    private static func outside(_ asked: String, _ roots: [FilePath], _ one: String, _ many: String) -> ImageError {
        let known = roots.map(\.string).uniqued().joined(separator: ", ")
        let subject =
            linkOutOf(roots, asked).map { link, target in
                let way = link == asked ? "is a symbolic link" : "leads through \(link), a symbolic link"
                return "\(asked) \(way) to \(target), which"
            } ?? asked
        return ImageError(
            .forbidden,
            "\(subject) is not beneath an allowed \(one) (\(known.isEmpty ? "none" : known)); "
                + "add one to the \(many) of Configuration.fileAccess."
        )
    }

    /// The symbolic link beneath a root by which a path leaves the roots, and its content. Links outside of the roots
    /// are not read, because a message must not reveal them.
    private static func linkOutOf(_ roots: [FilePath], _ path: String) -> (link: String, target: String)? {
        var prefix = ""
        var isInside = false
        for component in filePath(path).components {
            prefix += "/\(component)"
            guard let resolved = realPath(prefix) else { return nil }
            let wasInside = isInside
            isInside = roots.contains(where: resolved.starts)
            guard wasInside, !isInside else { continue }
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: prefix)
            return target.map { (prefix, $0) }
        }
        return nil
    }

    private static func requireUnchanged(_ file: File, _ descriptor: Int32) throws(ImageError) {
        var info = stat()
        guard fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG, File(path: file.path, info) == file
        else {
            throw changed(file)
        }
    }

    private static func changed(_ file: File) -> ImageError {
        ImageError(.incompleteBody, "\(file.path) changed while it was read.")
    }

    /// Resolves the links in the existing part of an absolute path.
    ///
    /// - Returns: the whole path, and its existing part.
    package static func resolved(_ path: FilePath) -> (path: FilePath, existing: FilePath) {
        var existing = path
        var missing: [FilePath.Component] = []
        while true {
            if let real = realPath(existing.string) { return (real.appending(missing), real) }
            guard let last = existing.lastComponent else { return (FilePath("/").appending(missing), "/") }
            existing.removeLastComponent()
            missing.insert(last, at: 0)
        }
    }

    /// An absolute path without the components `.` and the empty ones.
    private static func filePath(_ path: String) -> FilePath {
        FilePath(root: "/", FilePath(path).components.filter { $0.kind != .currentDirectory })
    }

    /// The path, links resolved, of an open file or directory (proc_pid_fd(5)). One system call; `realPath`, which is
    /// asked if the name ends as the kernel marks a deleted file, makes one for each component. Nil if it was deleted.
    private static func openedPath(_ descriptor: Int32) -> FilePath? {
        let link = "/proc/self/fd/\(descriptor)"
        let capacity = Int(PATH_MAX)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: capacity + 1) { text -> FilePath? in
            guard let start = text.baseAddress else { return nil }
            let length = readlink(link, start, capacity)
            if length >= capacity { errno = ENAMETOOLONG }
            guard length > 0, length < capacity else { return nil }
            start[length] = 0
            if text[..<length].suffix(deleted.count).elementsEqual(deleted) { return realPath(link) }
            return FilePath(platformString: start)
        }
    }

    /// The kernel appends this to the name of a deleted file; others may have such a name.
    private static let deleted = " (deleted)".utf8.map(CChar.init(bitPattern:))

    private static func realPath(_ path: String) -> FilePath? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return FilePath(platformString: resolved)
    }

    private static func readError(_ path: String) -> ImageError {
        let code = errno
        let text = String(cString: strerror(code))
        return switch code {
        case ENOENT, ENOTDIR, ENAMETOOLONG: ImageError(.notFound, "\(path): \(text).")
        case EACCES, EPERM, ELOOP: ImageError(.accessDenied, "\(path): \(text).")
        default: ImageError(.unreachable, "\(path): \(text).")
        }
    }
}

extension FileAccess.File {
    fileprivate init(path: String, _ info: stat) {
        let modified = Int(info.st_mtim.tv_sec) * 1_000_000_000 + Int(info.st_mtim.tv_nsec)
        self.init(path: path, size: Int(info.st_size), modified: modified)
    }
}

extension FileAccess: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        roots.filter(Self.revealing.contains).map {
            "files beneath \($0), which has files of the system, may be read"
        }
    }
}

/// Files that were written shortly before a power cut: they may have NULs in place of their bytes.
extension FileAccess {
    /// Maximum number of bytes that are read. A file with more NULs at its beginning counts as one with content.
    private static let blankLimit = 64 << 20
    private static let blockSize = 1 << 16
    /// SEEK_DATA of lseek(2), which Swift's module of glibc does not have.
    private static let seekData: Int32 = 3

    /// Whether all bytes of a file are NULs, or it is empty. Blocks.
    ///
    /// - Parameter descriptor: its position is changed.
    /// - Returns: false also if the file cannot be read.
    package static func isBlank(_ descriptor: Int32) -> Bool {
        // The bytes that never came to the disk are a hole, in most file systems.
        if lseek(descriptor, 0, seekData) < 0 && errno == ENXIO { return true }
        guard lseek(descriptor, 0, SEEK_SET) == 0 else { return false }
        var block = [UInt8](repeating: 0, count: blockSize)
        var length = 0
        while length < blankLimit {
            let count = Foundation.read(descriptor, &block, block.count)
            if count == 0 { return true }
            if count < 0, errno == EINTR { continue }
            guard count > 0, block.prefix(count).allSatisfy({ $0 == 0 }) else { return false }
            length += count
        }
        return false
    }
}
