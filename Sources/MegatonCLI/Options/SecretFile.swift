import Foundation
import MegatonCommandLine

/// A file with secrets that an option names: secrets must not be arguments, which `ps` shows.
struct SecretFile {
    let content: Data
    /// Whether its group or others may read it too.
    let isExposed: Bool

    /// Maximum size, bytes.
    private static let maximumSize = 1024 * 1024

    /// Reads the file only once, as it may be a pipe.
    ///
    /// - Parameter option: name of the option, for messages.
    /// - Throws: `CLIError` if the file cannot be read; never with a secret in it.
    init(_ path: String, option: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CLIError.usage("\(option) \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var info = stat()
        isExposed = fstat(descriptor, &info) == 0 && info.st_mode & (S_IRGRP | S_IROTH) != 0
        do {
            content = try file.read(upToCount: Self.maximumSize + 1) ?? Data()
        } catch {
            throw CLIError.usage("\(option) \(path) cannot be read: \(CLIError.reason(error)).")
        }
        guard content.count <= Self.maximumSize else {
            throw CLIError.usage("\(option) \(path) is larger than \(Self.maximumSize) bytes.")
        }
    }
}
