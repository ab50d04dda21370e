internal import Foundation
internal import MegatonPipeline

/// What one process did, a JSON line for each step, in the order in which it did them.
///
/// For a checker that looks at all of them afterwards. A line is with the kernel before the step it announces is taken,
/// so that a `kill -9` loses none. Costs a write for each step: not for everyday use.
public final class HistoryFile: Sendable {
    private let handle: FileHandle
    private let thread = ThreadPool(name: "megaton-history", count: 1)

    /// The file cannot be opened.
    public struct CannotOpen: Error, CustomStringConvertible {
        public let description: String
    }

    /// Appends to the file, which is made if it is not there.
    public init(_ path: String) throws(CannotOpen) {
        let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else {
            throw CannotOpen(description: "the history \(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    deinit { thread.stop() }

    /// Writes one step down. Returns when the kernel has it.
    func note(_ event: HistoryEvent) async throws {
        let line = WireJSON.data(event) + Data([10])
        try await thread.run { [handle] in try handle.write(contentsOf: line) }
    }
}
