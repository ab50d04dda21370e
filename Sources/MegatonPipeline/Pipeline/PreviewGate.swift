import Synchronization

/// Lets the previews of a picture be worked on one at a time: what comes meanwhile is left out, and so is all that comes
/// after the picture itself.
final class PreviewGate: Sendable {
    private struct State {
        var isBusy = false
        var isOver = false
    }

    /// Ends a preview under way with the gate.
    let cancellation = RenderCancellation()
    private let state = Mutex(State())

    /// - Returns: whether work may begin; `leave` follows it.
    func enter() -> Bool {
        state.withLock { state in
            if state.isBusy || state.isOver { return false }
            state.isBusy = true
            return true
        }
    }

    func leave() { state.withLock { $0.isBusy = false } }

    /// The picture itself has come.
    func end() {
        state.withLock { $0.isOver = true }
        cancellation.cancel()
    }
}
