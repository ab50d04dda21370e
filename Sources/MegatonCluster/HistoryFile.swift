internal import Foundation
internal import MegatonPipeline

/// Log of the events of one process, one JSON line each, in the order in which they happened.
///
/// A checker reads the files of all processes afterwards. The kernel has a line before the step it announces is taken,
/// so that a `kill -9` loses none. Costs one write per step: not for everyday use.
public final class HistoryFile: Sendable {
    private let handle: FileHandle
    private let thread = ThreadPool(name: "megaton-history", count: 1)

    /// Thrown if the file cannot be opened.
    public struct CannotOpen: Error, CustomStringConvertible {
        public let description: String
    }

    /// Opens the file for appending; creates it if it is missing.
    public init(_ path: String) throws(CannotOpen) {
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
