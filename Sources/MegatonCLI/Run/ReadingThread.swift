import Foundation
import MegatonCommandLine
import MegatonPipeline
import Synchronization

/// Reads inputs and creates jobs from them on a thread of its own, as both ask file systems and block.
final class ReadingThread: Sendable {
    private let state: Mutex<(reader: InputReader, builder: JobBuilder)>
    private let thread = ThreadPool(name: "megaton-input", count: 1)

    init(_ selection: InputSelection, _ builder: JobBuilder) throws {
        state = Mutex((try InputReader(selection), builder))
    }

    /// The next jobs, perhaps none; nil at the end.
    func next(_ limit: Int) async throws -> [JobBuilder.BuiltJob]? {
        try await thread.run {
            try self.state.withLock { state in
                let inputs = try state.reader.next(limit)
                if inputs.isEmpty && state.reader.isAtEnd { return nil }
                return state.builder.build(inputs)
            }
        }
    }

    /// Number of files left out so far: by their file extensions, and by `--exclude`.
    var leftOut: (skipped: Int, excluded: Int) { state.withLock { ($0.reader.skipped, $0.reader.excluded) } }

    /// Jobs of a retried ledger that were left out so far.
    var notRetried: RetryLedger.NotRetried { state.withLock { $0.reader.notRetried } }

    func stop() {
        thread.stop()
        state.withLock { state in
            state.reader.invalidLines.end()
            state.builder.invalidLines.end()
        }
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
