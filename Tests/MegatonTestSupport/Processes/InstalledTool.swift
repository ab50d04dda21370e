import Foundation

/// A program of Debian that `./scripts/test` installs, with which results are compared.
public struct InstalledTool: Sendable {
    private let path: String

    /// - Parameter name: of a file in /usr/bin.
    public init(_ name: String) { path = "/usr/bin/" + name }

    /// Runs the program, whose messages are dropped, to its end.
    ///
    /// - Returns: the exit code, or the number of the signal that ended it.
    /// - Throws: an error if it is not installed.
    public func run(_ arguments: [String]) async throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return try await withCheckedThrowingContinuation { continuation in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do { try process.run() } catch { continuation.resume(throwing: error) }
        }
    }
}
