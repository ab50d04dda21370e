import Foundation
import MegatonPipeline
import Synchronization

/// An `InputReader` on a thread of its own: reading blocks.
final class ReadingThread: Sendable {
    private let reader: Mutex<InputReader>
    private let thread = ThreadPool(name: "megaton-input", count: 1)

    init(
        _ arguments: [String],
        retrying ledger: String? = nil,
        excluding output: String?,
        endings: Set<String>
    ) throws {
        reader = Mutex(try InputReader(arguments, retrying: ledger, excluding: output, endings: endings))
    }

    /// The next inputs, perhaps none: nil at the end.
    func next(_ limit: Int) async throws -> [Input]? {
        try await thread.run {
            try self.reader.withLock { reader in
                let inputs = try reader.next(limit)
                return inputs.isEmpty && reader.isAtEnd ? nil : inputs
            }
        }
    }

    /// Files that were left out so far.
    var skipped: Int { reader.withLock { $0.skipped } }

    func stop() { thread.stop() }
}
