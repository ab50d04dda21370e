import Foundation
import MegatonCluster

/// A file beneath the output directory, reached from there without a symbolic link. Its calls block.
///
/// Each directory is opened in the one above it, so that a directory that is replaced by a link meanwhile leads
/// nowhere.
struct OrphanFile: ~Copyable {
    /// How a deletion ended.
    enum Ending: Sendable, Equatable {
        case deleted
        /// The file was not there.
        case gone
        /// The file stays, with the reason: it is another one than the run has made, or a link leads to it.
        case kept(String)
        /// The kernel refused, with the reason.
        case failed(String)
    }

    /// The directories from the output directory to the file's own, open.
    private let directories: [Int32]
    /// The names of all but the first of them, and the name of the file.
    private let components: [String]

    /// - Parameters:
    ///   - root: the output directory, absolute; links in its own path are followed, as the operator names it.
    ///   - name: of the file beneath it, without `..`.
    /// - Throws: the ending, if the file cannot be reached.
    init(_ root: String, name: String) throws(Unreached) {
        let components = name.utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
        var directories: [Int32] = []
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
        var descriptor = open(root, flags)
        for component in components.dropLast() where descriptor >= 0 {
            directories.append(descriptor)
            descriptor = openat(descriptor, component, flags | O_NOFOLLOW)
        }
        guard descriptor >= 0 else {
            let code = errno
            for directory in directories { close(directory) }
            switch code {
            case ENOENT: throw Unreached(ending: .gone)
            // With O_DIRECTORY a link is reported as no directory.
            case ELOOP, ENOTDIR: throw Unreached(ending: .kept("a symbolic link or a file is in its path"))
            default: throw Unreached(ending: .failed(String(cString: strerror(code))))
            }
        }
        self.directories = directories + [descriptor]
        self.components = components
    }

    /// The file cannot be reached.
    struct Unreached: Error {
        let ending: Ending
    }

    deinit { for directory in directories { close(directory) } }

    private var directory: Int32 { directories[directories.count - 1] }
    private var file: String { components[components.count - 1] }

    /// Deletes the file if it has the expected bytes, and the directories that are empty then.
    ///
    /// - Parameters:
    ///   - bytes: size of the file.
    ///   - sha256: digest of the file, 64 hex digits.
    func delete(bytes: Int, sha256: String) -> Ending {
        let descriptor = openat(directory, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            switch errno {
            case ENOENT: return .gone
            case ELOOP: return .kept("it is a symbolic link")
            case let code: return .failed(String(cString: strerror(code)))
            }
        }
        defer { close(descriptor) }
        var (opened, present) = (stat(), stat())
        guard fstat(descriptor, &opened) == 0 else { return .failed(String(cString: strerror(errno))) }
        guard opened.isRegular, Int(opened.st_size) == bytes else { return .kept("it was changed") }
        guard let digest = Checksum.sha256(ofFile: descriptor) else {
            return .failed(String(cString: strerror(errno)))
        }
        guard digest == sha256 else { return .kept("it was changed") }
        // Another process may have replaced or written the file during the read.
        guard fstatat(directory, file, &present, AT_SYMLINK_NOFOLLOW) == 0 else { return .gone }
        let isSame =
            present.st_ino == opened.st_ino && present.st_dev == opened.st_dev && present.st_size == opened.st_size
            && present.modified == opened.modified
        guard isSame else { return .kept("it was changed") }
        guard unlinkat(directory, file, 0) == 0 else {
            return errno == ENOENT ? .gone : .failed(String(cString: strerror(errno)))
        }
        deleteEmptyDirectories()
        return .deleted
    }

    /// Deletes the directory of the file and those above it, up to the output directory, as far as they are empty.
    private func deleteEmptyDirectories() {
        for position in stride(from: directories.count - 1, to: 0, by: -1) {
            // The kernel refuses a directory that is not empty.
            if unlinkat(directories[position - 1], components[position - 1], AT_REMOVEDIR) != 0 { return }
        }
    }
}
