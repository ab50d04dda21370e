import Foundation
import MegatonCommandLine
import MegatonPipeline
import Synchronization

/// Reads inputs and creates jobs from them on a thread of its own, as both ask file systems and block. Parts of the
/// inputs that are on the network are loaded while the thread is idle.
final class ReadingThread: Sendable {
    private let state: Mutex<(reader: InputReader, builder: JobBuilder)>
    private let thread = ThreadPool(name: "megaton-input", count: 1)
    /// Nil if no input needs it.
    private let remote: RemoteInputs?

    init(_ selection: InputSelection, _ builder: JobBuilder, _ remote: RemoteInputs?) throws {
        state = Mutex((try InputReader(selection), builder))
        self.remote = remote
    }

    /// The next jobs, perhaps none; nil at the end, and after a signal that ended a load.
    func next(_ limit: Int) async throws -> [JobBuilder.BuiltJob]? { try await next(limit) { $0 } }

    /// The result of `body` for the next jobs, perhaps none; nil at the end, and after a signal that ended a load.
    ///
    /// - Parameter body: runs on the thread, and may block.
    func next<Value: Sendable>(
        _ limit: Int,
        _ body: @escaping @Sendable ([JobBuilder.BuiltJob]) throws -> Value
    ) async throws -> Value? {
        // The thread is idle between two calls, so that the lock is free.
        if let request = state.withLock({ $0.reader.request }) {
            guard let remote else { throw CLIError.broken("the inputs need the network, which was not prepared.") }
            guard let answer = try await remote.answer(request) else { return nil }
            try await thread.run { try self.state.withLock { try $0.reader.receive(answer) } }
        }
        return try await thread.run {
            try self.state.withLock { state in
                let inputs = try state.reader.next(limit)
                state.builder.earlier?.note(state.reader)
                if inputs.isEmpty && state.reader.isAtEnd { return nil }
                return try body(state.builder.build(inputs))
            }
        }
    }

    /// Inputs that were left out so far.
    var leftOut: LeftOutInputs {
        state.withLock { state in
            let reader = state.reader
            return LeftOutInputs(
                skipped: reader.skipped,
                excluded: reader.excluded,
                links: reader.linkCount,
                unreadable: reader.unreadable
            )
        }
    }

    /// Number of directories so far that could not be read.
    var unreadable: Int { state.withLock { $0.reader.unreadable } }

    /// Arguments so far in which no input was found.
    var emptyArguments: [String] { state.withLock { $0.reader.emptyArguments } }

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
