import Foundation
import MegatonCommandLine
import MegatonPipeline

/// The file of `--credentials`: secrets must not be arguments, which `ps` shows.
struct CredentialsFile {
    let credentials: Credentials
    /// Whether its group or others may read it too.
    let isExposed: Bool

    /// Maximum size, bytes.
    private static let maximumSize = 1024 * 1024

    /// Checks that the file can be read more than once.
    ///
    /// - Throws: `CLIError` for a pipe and the like.
    static func requireRegular(_ path: String) throws {
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT != S_IFREG else { return }
        throw CLIError.usage("--credentials \(path) is not a regular file, but each worker of the run must read it.")
    }

    /// Reads the file only once, as it may be a pipe.
    ///
    /// - Throws: `CLIError` if the file cannot be read or is invalid; never with a secret in it.
    init(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CLIError.usage("--credentials \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var info = stat()
        isExposed = fstat(descriptor, &info) == 0 && info.st_mode & (S_IRGRP | S_IROTH) != 0
        let data: Data
        do {
            data = try file.read(upToCount: Self.maximumSize + 1) ?? Data()
        } catch {
            throw CLIError.usage("--credentials \(path) cannot be read: \(CLIError.reason(error)).")
        }
        guard data.count <= Self.maximumSize else {
            throw CLIError.usage("--credentials \(path) is larger than \(Self.maximumSize) bytes.")
        }
        do {
            credentials = try Credentials(json: data)
        } catch {
            throw CLIError.usage("--credentials \(path): \(error.message)")
        }
    }
}
