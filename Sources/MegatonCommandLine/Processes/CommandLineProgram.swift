import Foundation

/// Path of this program, to start it again.
package enum CommandLineProgram {
    /// - Throws: `CLIError` without /proc.
    package static func path() throws -> String {
        guard let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw CLIError.broken("the path of this program is unknown; is /proc mounted?")
        }
        // An upgrade replaced the file. The kernel still has the old one, and starts it by this name.
        return path.hasSuffix(" (deleted)") ? "/proc/\(getpid())/exe" : path
    }
}
