internal import Foundation
internal import Logging
internal import MegatonPipeline

/// Optional history of a worker. If an event cannot be written, the error is logged and the work continues.
struct History: Sendable {
    let file: HistoryFile?
    let logger: Logger

    func note(_ event: @autoclosure () -> HistoryEvent) async {
        guard let file else { return }
        do {
            try await file.note(event())
        } catch {
            logger.error("an event could not be written to the history", metadata: [LogKey.error: "\(error)"])
        }
    }
}

/// An event in the history of a worker.
package struct HistoryEvent: Sendable, Codable, Equatable {
    /// Kinds of events.
    package enum Kind: String, Sendable, Codable {
        /// A job was claimed.
        case claim
        /// Redis acknowledged the end of an attempt.
        case settle
        /// The worker leads a flight.
        case lead
        /// A flight ended: `ok`, `stale`, `torn`, or `failed`.
        case land
        /// A request is sent to an origin.
        case fetch
    }

    package var kind: Kind
    /// Milliseconds since 1970 by this machine's clock: for readers only, a checker must not rely on it.
    package var at: Int
    /// The id of the job.
    package var id: String?
    package var attempt: Int?
    /// The key of the flight; for a fetch its host and a hash of its URL.
    package var key: String?
    package var token: Int?
    /// Outcome of the step.
    package var result: String?

    init(
        _ kind: Kind,
        id: String? = nil,
        attempt: Int? = nil,
        key: String? = nil,
        token: Int? = nil,
        result: String? = nil
    ) {
        self.kind = kind
        at = Int(Date().timeIntervalSince1970 * 1000)
        self.id = id
        self.attempt = attempt
        self.key = key
        self.token = token
        self.result = result
    }
}

/// Log of the events of one process, one JSON line each, in the order in which they happened.
///
/// A checker reads the files of all processes afterwards. The kernel has a line before the step it announces is taken,
/// so that a `kill -9` loses none. Costs one write per step: not for everyday use.
package final class HistoryFile: Sendable {
    private let handle: FileHandle
    private let thread = ThreadPool(name: "megaton-history", count: 1)

    /// Thrown if the file cannot be opened.
    package struct CannotOpen: Error, CustomStringConvertible {
        package let description: String
    }

    /// Opens the file for appending; creates it if it is missing.
    package init(_ path: String) throws(CannotOpen) {
        let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw CannotOpen(description: "the history \(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    deinit { thread.stop() }

    /// Writes one event, and returns when the kernel has it.
    func note(_ event: HistoryEvent) async throws {
        let line = WireJSON.data(event) + Data([10])
        try await thread.run { [handle] in try handle.write(contentsOf: line) }
    }
}
