import ArgumentParser
import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis

/// An error that ends the program: a message for users, and an exit code of sysexits.h for scripts.
package struct CLIError: Error, CustomStringConvertible {
    package let code: Int32
    package let message: String

    package init(code: Int32, message: String) {
        self.code = code
        self.message = message
    }

    /// The command line is invalid.
    package static func usage(_ message: String) -> CLIError { CLIError(code: 64, message: message) }
    /// Redis is unreachable.
    package static func unavailable(_ message: String) -> CLIError { CLIError(code: 69, message: message) }
    /// A part of this program or its installation does not work.
    package static func broken(_ message: String) -> CLIError { CLIError(code: 70, message: message) }
    /// The system refuses a resource, such as a port.
    package static func system(_ message: String) -> CLIError { CLIError(code: 71, message: message) }
    /// The named object does not exist.
    package static func notFound(_ message: String) -> CLIError { CLIError(code: 1, message: message) }
    /// A file cannot be written.
    package static func output(_ message: String) -> CLIError { CLIError(code: 74, message: message) }

    package var description: String { message }

    /// An error of Redis; those of our scripts in words of the command line.
    init(_ error: RedisError) {
        self =
            switch error.code {
            case .batchExists: .usage("a batch with this name was submitted before; choose another --batch.")
            case .batchClosed:
                .unavailable(
                    "another process has closed the batch (megaton batch close), so that it takes no more jobs. Those "
                        + "that were submitted continue; the same command with another --batch submits all."
                )
            case .otherReader:
                .unavailable(
                    "another reader has received outcomes of the batch that this one lacks, or the ledger has lost "
                        + "lines. megaton batch results with the name of a new file as --ledger reads those that are "
                        + "left."
                )
            case .invalidConfiguration: .usage(error.message)
            case .server where error.isWrongType:
                .unavailable(
                    "\(error.message). Another program has written a key of the queue: megaton doctor names it, and "
                        + "says how to repair the queue."
                )
            default: .unavailable(error.message)
            }
    }

    /// The reason without names of Swift types: the kernel's message for a file, or the faulty value of a JSON.
    package static func reason(_ error: any Error) -> String {
        if let code = ((error as? CocoaError)?.underlying as? POSIXError)?.code {
            return String(cString: strerror(code.rawValue))
        }
        guard let error = error as? DecodingError else { return error.localizedDescription }
        if let problem = error.fieldProblem { return problem.description }
        let context: DecodingError.Context? =
            switch error {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .keyNotFound(_, let context),
                .dataCorrupted(let context):
                context
            @unknown default: nil
            }
        let path = context?.codingPath.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
        let text = context?.debugDescription ?? "\(error)"
        return path.map { $0.isEmpty ? text : "\($0): \(text)" } ?? text
    }
}

/// Runs a command's body; reports any error in one line on standard error.
package func reportingFailures(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let failure as CLIError {
        Terminal.error("megaton: \(OptionOrigins.renamed(failure.message).text)")
        throw ExitCode(failure.code)
    } catch let error as HistoryFile.CannotOpen {
        Terminal.error("megaton: \(error)")
        throw ExitCode(74)
    } catch let error as RedisError {
        let failure = CLIError(error)
        Terminal.error("megaton: \(OptionOrigins.renamed(failure.message).text)")
        throw ExitCode(failure.code)
    } catch let error as ImagePipeline.Error {
        Terminal.error("megaton: \(OptionOrigins.renamed(error.message).text)")
        throw ExitCode(70)
    }
}
