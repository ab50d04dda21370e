package import Foundation

/// A file with secrets, and its permissions: secrets must not be arguments, which `ps` shows.
package struct SecretFile: Sendable {
    package let content: Data
    /// The permission bits of the file, without the one that a credential of systemd has for its group.
    package let permissions: mode_t

    /// Maximum size, bytes.
    private static let maximumSize = 1024 * 1024

    /// A file that cannot be read: the rest of a sentence, such as `cannot be read: No such file or directory`.
    package struct Problem: Error, Sendable, Equatable {
        package let text: String
    }

    /// Reads the file only once, as it may be a pipe. Blocks the thread meanwhile.
    ///
    /// - Parameter credentials: directory of systemd's credentials (`$CREDENTIALS_DIRECTORY`), if there is one.
    package init(_ path: String, credentials: String?) throws(Problem) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Problem(text: "cannot be read: \(Self.reason(errno))") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { throw Problem(text: "cannot be read: \(Self.reason(errno))") }
        permissions = Self.permissions(
            info.st_mode,
            owner: info.st_uid,
            isCredential: Self.isBeneath(credentials, path)
        )
        do {
            content = try file.read(upToCount: Self.maximumSize + 1) ?? Data()
        } catch {
            let code = ((error as? CocoaError)?.underlying as? POSIXError)?.code.rawValue
            throw Problem(text: "cannot be read: \(code.map(Self.reason) ?? error.localizedDescription)")
        }
        guard content.count <= Self.maximumSize else {
            throw Problem(text: "is larger than \(Self.maximumSize) bytes")
        }
    }

    /// Whether its group or others may read it too. The group may read a credential of systemd.
    package var isExposed: Bool { permissions & (S_IRGRP | S_IROTH) != 0 }

    /// - Parameter isCredential: whether the file is one of systemd's credentials (`LoadCredential=`). Such a file is
    ///   root's and has the mode 0440: an access control list lets the user of the service read it, and shows as a
    ///   permission of the group. The directory is closed to all others.
    package static func permissions(_ mode: mode_t, owner: uid_t, isCredential: Bool) -> mode_t {
        let isTrusted = isCredential && (owner == 0 || owner == geteuid())
        return mode & 0o777 & ~(isTrusted ? S_IRGRP : 0)
    }

    private static func reason(_ code: Int32) -> String { String(cString: strerror(code)) }

    /// Whether the path leads to a file beneath the directory, by way of links too.
    private static func isBeneath(_ directory: String?, _ path: String) -> Bool {
        guard let directory, directory.hasPrefix("/"), let root = real(directory), let file = real(path) else {
            return false
        }
        return file.utf8.starts(with: "\(root)/".utf8)
    }

    private static func real(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }
}
