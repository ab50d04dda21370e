import Synchronization

/// Lets the previews of a picture be worked on one at a time: what comes meanwhile is left out, and so is all that comes
/// after the picture itself. They are shown in the order in which they were made.
final class PreviewGate<Preview: Sendable>: Sendable {
    private struct State {
        var isBusy = false
        var isOver = false
        /// Whether somebody is showing one.
        var isShowing = false
        /// The one that he shows next.
        var next: Preview?
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

    /// Ends the work, then shows what it has made: a chunk that comes in answer to that finds the gate open. While an
    /// earlier preview is still being shown, by this thread or another, this one is left to whoever does that, in the
    /// place of another one that waits there.
    ///
    /// - Parameters:
    ///   - preview: nil if none was made.
    ///   - show: is called for one preview at a time, without a lock.
    func leave(_ preview: Preview?, show: (Preview) -> Void) {
        var shown = state.withLock { state -> Preview? in
            state.isBusy = false
            guard let preview else { return nil }
            if state.isShowing {
                state.next = preview
                return nil
            }
            state.isShowing = true
            return preview
        }
        while let preview = shown {
            show(preview)
            shown = state.withLock { state -> Preview? in
                let next = state.next
                state.next = nil
                state.isShowing = next != nil
                return next
            }
        }
    }

    /// The picture itself has come.
    func end() {
        state.withLock { $0.isOver = true }
        cancellation.cancel()
    }
}
