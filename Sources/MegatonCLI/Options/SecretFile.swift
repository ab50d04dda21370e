import Foundation
import MegatonCommandLine

/// A file with secrets that an option names: secrets must not be arguments, which `ps` shows.
struct SecretFile {
    let content: Data
    /// Whether its group or others may read it too. The group may read a credential of systemd.
    let isExposed: Bool

    /// Maximum size, bytes.
    private static let maximumSize = 1024 * 1024

    /// Reads the file only once, as it may be a pipe.
    ///
    /// - Parameters:
    ///   - option: name of the option, for messages.
    ///   - environment: names the directory of systemd's credentials.
    /// - Throws: `CLIError` if the file cannot be read; never with a secret in it.
    init(
        _ path: String,
        option: String,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CLIError.usage("\(option) \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var info = stat()
        let isCredential = Self.isBeneath(environment["CREDENTIALS_DIRECTORY"], path)
        isExposed = fstat(descriptor, &info) == 0 && Self.isExposed(info, isCredential: isCredential)
        do {
            content = try file.read(upToCount: Self.maximumSize + 1) ?? Data()
        } catch {
            throw CLIError.usage("\(option) \(path) cannot be read: \(CLIError.reason(error)).")
        }
        guard content.count <= Self.maximumSize else {
            throw CLIError.usage("\(option) \(path) is larger than \(Self.maximumSize) bytes.")
        }
    }

    /// - Parameter isCredential: whether the file is one of systemd's credentials (`LoadCredential=`). Such a file is
    ///   root's and has the mode 0440: an access control list lets the user of the service read it, and shows as a
    ///   permission of the group. The directory is closed to all others.
    static func isExposed(_ info: stat, isCredential: Bool) -> Bool {
        let isTrusted = isCredential && (info.st_uid == 0 || info.st_uid == geteuid())
        return info.st_mode & (isTrusted ? S_IROTH : S_IRGRP | S_IROTH) != 0
    }

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
