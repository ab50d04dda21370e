import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// The file of `--credentials`.
struct CredentialsFile {
    let credentials: Credentials
    /// Whether its group or others may read it too.
    let isExposed: Bool

    /// Checks that the file can be read more than once.
    ///
    /// - Throws: `CLIError` for a pipe and the like.
    static func requireRegular(_ path: String) throws {
        var info = stat()
        guard stat(path, &info) == 0, info.st_mode & S_IFMT != S_IFREG else { return }
        throw CLIError.usage("--credentials \(path) is not a regular file, but each worker of the run must read it.")
    }

    /// - Throws: `CLIError` if the file cannot be read or is invalid; never with a secret in it.
    init(_ path: String) throws {
        let file = try SecretFile(path, option: "--credentials")
        isExposed = file.isExposed
        do {
            credentials = try Credentials(json: file.content)
        } catch {
            throw CLIError.usage("--credentials \(path): \(error.message)")
        }
    }
}
