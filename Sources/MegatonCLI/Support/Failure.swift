import ArgumentParser
import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis

/// What ends the program early: a sentence for people and a code of sysexits.h for scripts.
struct Failure: Error, CustomStringConvertible {
    let code: Int32
    let message: String

    /// A wrong command line.
    static func usage(_ message: String) -> Failure { Failure(code: 64, message: message) }
    /// Redis, or another program that is needed, is not there.
    static func unavailable(_ message: String) -> Failure { Failure(code: 69, message: message) }
    /// What was named is not there.
    static func notFound(_ message: String) -> Failure { Failure(code: 1, message: message) }
    /// A file cannot be written.
    static func output(_ message: String) -> Failure { Failure(code: 74, message: message) }

    var description: String { message }
}

/// Runs a command's body; whatever goes wrong is told in one line on standard error.
func reportingFailures(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let failure as Failure {
        Terminal.error("megaton: \(failure.message)")
        throw ExitCode(failure.code)
    } catch let error as HistoryFile.CannotOpen {
        Terminal.error("megaton: \(error)")
        throw ExitCode(74)
    } catch let error as RedisError {
        if error.message.contains("BATCHEXISTS") {
            Terminal.error("megaton: a batch of this name has been submitted before; choose another --batch.")
            throw ExitCode(64)
        }
        Terminal.error("megaton: \(error.message)")
        throw ExitCode(error.code == .invalidConfiguration ? 64 : 69)
    } catch let error as ImagePipeline.Error {
        Terminal.error("megaton: \(error.message)")
        throw ExitCode(69)
    }
}
