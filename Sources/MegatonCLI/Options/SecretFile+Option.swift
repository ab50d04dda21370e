import Foundation
import MegatonCluster
import MegatonCommandLine

extension SecretFile {
    /// Reads the file that an option names.
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
        do {
            try self.init(path, credentials: environment["CREDENTIALS_DIRECTORY"])
        } catch {
            throw CLIError.usage("\(option) \(path) \(error.text).")
        }
    }
}
