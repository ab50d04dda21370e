import Synchronization

/// Admits one preview of an image at a time. Bytes that arrive meanwhile are skipped, and so is everything after the
/// image itself. Previews are shown in the order in which they were made.
final class PreviewGate<Preview: Sendable>: Sendable {
    private struct State {
        var isBusy = false
        var isOver = false
        /// Whether a thread is showing a preview.
        var isShowing = false
        /// Preview that this thread shows next.
        var next: Preview?
    }

    /// Cancels a preview under way when the gate ends.
    let cancellation = RenderCancellation()
    private let state = Mutex(State())

    /// - Returns: whether work may start; if so, `leave` must follow.
    func enter() -> Bool {
        state.withLock { state in
            if state.isBusy || state.isOver { return false }
            state.isBusy = true
            return true
        }
    }

    /// Ends the work, then shows its preview. The gate is open before that, so that a chunk that arrives in response is
    /// admitted. If an earlier preview is still being shown, by this thread or another, that call also shows this
    /// preview, unless a newer one replaces it first.
    ///
    /// - Parameters:
    ///   - preview: nil if none was made.
    ///   - show: called with one preview at a time, with no lock held.
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

    /// Ends the previews, as the image itself is there, or will not be.
    func end() {
        state.withLock { $0.isOver = true }
        cancellation.cancel()
    }
}
