import Foundation

/// A new directory beneath `TMPDIR` that only this user may enter (mode 700). Its path is short enough for a socket in
/// it (108 bytes, unix(7)).
///
/// A process that is killed leaves its directory. Each directory has a file that its process has locked (shared), and
/// the child processes that use the directory lock it too, so that a later process can remove the directories whose
/// processes have ended.
package struct TemporaryDirectory: Sendable {
    package let path: String
    /// Descriptor of the locked file; -1 without a lock.
    private let lock: Int32

    /// Names of directories begin with it.
    private static let prefix = "megaton-"
    /// Name of the locked file.
    static let lockName = ".megaton-owner"
    /// Content of the locked file. Only directories that have it are removed.
    static let lockContent = "temporary directory of megaton\n"

    /// Leaves room for "/megaton-XXXXXX/redis.sock".
    private static let longestParent = 80

    /// - Throws: `CLIError` if the directory cannot be created.
    package init() throws {
        try self.init(in: Self.parent(ProcessInfo.processInfo.environment["TMPDIR"]))
    }

    /// - Throws: `CLIError` if the directory cannot be created.
    init(in parent: String) throws {
        Self.removeAbandoned(in: parent)
        var template = Array("\(parent)/\(Self.prefix)XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw CLIError.output(
                "no temporary directory can be created in \(parent): \(String(cString: strerror(errno))). TMPDIR in "
                    + "the environment names another place."
            )
        }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        lock = Self.locked(path)
    }

    /// File that a child process locks as long as it uses the directory; nil without a lock.
    package var lockPath: String? { lock < 0 ? nil : "\(path)/\(Self.lockName)" }

    /// Creates the locked file. It gets its name only when it is locked, so that no process finds it unlocked.
    private static func locked(_ path: String) -> Int32 {
        let (new, name) = ("\(path)/\(lockName).new", "\(path)/\(lockName)")
        let descriptor = open(new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return -1 }
        let length = lockContent.utf8.count
        guard flock(descriptor, LOCK_SH | LOCK_NB) == 0, write(descriptor, lockContent, length) == length,
            rename(new, name) == 0
        else {
            close(descriptor)
            return -1
        }
        return descriptor
    }

    /// Removes the directories of this user's processes that have ended without removing them.
    private static func removeAbandoned(in parent: String) {
        // A directory that cannot be read or removed stays.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        for name in names where name.hasPrefix(prefix) && name.utf8.count == prefix.utf8.count + 6 {
            let path = "\(parent)/\(name)"
            var info = stat()
            // As mkdtemp creates them: directories of this user alone.
            guard lstat(path, &info) == 0, info.st_mode & (S_IFMT | 0o777) == S_IFDIR | 0o700,
                info.st_uid == geteuid()
            else { continue }
            let descriptor = open("\(path)/\(lockName)", O_RDWR | O_NOFOLLOW | O_CLOEXEC)
            guard descriptor >= 0 else { continue }
            if hasLockContent(descriptor), flock(descriptor, LOCK_EX | LOCK_NB) == 0 {
                try? FileManager.default.removeItem(atPath: path)
            }
            close(descriptor)
        }
    }

    private static func hasLockContent(_ descriptor: Int32) -> Bool {
        var bytes = [UInt8](repeating: 0, count: lockContent.utf8.count + 1)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 && bytes.prefix(count).elementsEqual(lockContent.utf8)
    }

    /// `TMPDIR` if it is an absolute path that is short enough, or else `/tmp`.
    private static func parent(_ variable: String?) -> String {
        guard let variable, variable.hasPrefix("/"), variable.utf8.count <= longestParent else { return "/tmp" }
        return variable.count > 1 && variable.hasSuffix("/") ? String(variable.dropLast()) : variable
    }

    /// Removes the directory. A failure is reported, as the directory may contain logs and takes up space.
    package func remove() {
        defer { if lock >= 0 { close(lock) } }
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            Terminal.error(
                "megaton: the temporary directory \(path) could not be removed: \(error.localizedDescription)"
            )
        }
    }
}
