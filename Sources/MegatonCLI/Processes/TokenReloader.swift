import Foundation
import Logging
import MegatonCommandLine
import MegatonCore
import MegatonServer
import NIOPosix
import Synchronization

/// The tokens of a server, and the file from which they are read again: at SIGHUP, and when the file has changed.
final class TokenReloader: Sendable {
    /// Time between two looks at the file.
    private static let interval: Duration = .seconds(5)

    /// The properties of a file that show a change.
    private struct Stamp: Equatable {
        private let values: [Int]

        /// Nil if there is no such file.
        init?(_ path: String) {
            var info = stat()
            guard stat(path, &info) == 0 else { return nil }
            // A change of the mode or the owner shows in the time of the status only.
            values = [
                Int(info.st_ino), Int(info.st_size), Int(info.st_mtim.tv_sec), Int(info.st_mtim.tv_nsec),
                Int(info.st_ctim.tv_sec), Int(info.st_ctim.tv_nsec),
            ]
        }
    }

    /// The tokens, which a later reading replaces.
    let tokens: AccessTokens

    private let path: String
    private let logger: Logger
    private let stamp: Mutex<Stamp?>
    private let hangUps = AsyncSignal()

    /// - Parameter path: file of `--tokens`.
    /// - Throws: `CLIError` if the file cannot be used; never with a token in it.
    init(_ path: String, logger: Logger) throws {
        self.path = path
        self.logger = logger
        // Before the content: a change in between is noticed later.
        stamp = Mutex(Stamp(path))
        tokens = AccessTokens(try Self.read(path))
    }

    /// Reads a file of tokens. Blocks the thread meanwhile.
    ///
    /// - Throws: `CLIError` with its fault; never with a token in it.
    static func read(_ path: String) throws -> [AccessTokens.Entry] {
        let credentials = ProcessInfo.processInfo.environment["CREDENTIALS_DIRECTORY"]
        do {
            return try TokenFile(path, credentials: credentials).entries
        } catch {
            throw CLIError.usage("--tokens \(error)")
        }
    }

    /// Has the file read, whether it has changed or not.
    func hangUp() { hangUps.signal() }

    /// Looks at the file until the task is cancelled.
    func run() async {
        await repeating {
            let isAsked = await TimeLimit.wait(atMost: Self.interval) { [hangUps] () async -> Bool? in
                await hangUps.wait()
                return Task.isCancelled ? nil : true
            }
            if Task.isCancelled { return nil }
            await look(isAsked: isAsked ?? false)
            return .zero
        }
    }

    private func look(isAsked: Bool) async {
        do {
            // Files block; these threads are for that.
            let entries = try await NIOThreadPool.singleton.runIfActive { [self] () -> [AccessTokens.Entry]? in
                let now = Stamp(path)
                let isSame = stamp.withLock { last in
                    defer { last = now }
                    return last == now
                }
                return try isSame && !isAsked ? nil : Self.read(path)
            }
            guard let entries else { return }
            tokens.replace(with: entries)
            logger.notice("the tokens were read again", metadata: ["count": "\(entries.count)"])
        } catch {
            // The process ends.
            if Task.isCancelled { return }
            logger.error(
                "the tokens cannot be read again; those from before stay valid",
                metadata: ["error": "\(OptionOrigins.renamed("\(error)").text)"]
            )
        }
    }
}
