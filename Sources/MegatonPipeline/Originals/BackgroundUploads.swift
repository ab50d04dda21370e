import Synchronization

/// Originals that are being stored in a shared cache after the requests for them were answered.
///
/// Bounded: at the limit, a request waits for the end of its own upload, so that a slow cache slows the requests down
/// instead of filling the memory.
final class BackgroundUploads: Sendable {
    private struct State {
        var count = 0
        /// Whether `finish(within:)` waits for the last one.
        var isEnding = false
    }

    private let limit: Int
    private let state = Mutex(State())
    private let isIdle = AsyncSignal()

    /// - Parameter limit: maximum number of uploads that no request waits for.
    init(limit: Int) { self.limit = limit }

    /// Number of uploads under way.
    var count: Int { state.withLock { $0.count } }

    /// Returns at once if the original is being stored in a flight, where other callers wait for that, and there is
    /// room; else when it is stored.
    func adopt(_ original: Original) async {
        let isAdopted =
            original.isStoredInFlight
            && state.withLock { state in
                if state.count >= limit || state.isEnding { return false }
                state.count += 1
                return true
            }
        guard isAdopted else { return await original.isStored() }
        // Unstructured, as no request waits for it. Bounded by the time-outs of the cache.
        Task {
            await original.isStored()
            let isLast = state.withLock { state in
                state.count -= 1
                return state.count == 0 && state.isEnding
            }
            if isLast { isIdle.signal() }
        }
    }

    /// Waits for the uploads. From now on requests wait for their own.
    ///
    /// - Parameter limit: how long to wait; cancellation ends the wait too.
    /// - Returns: the number of uploads that are still under way.
    func finish(within limit: Duration) async -> Int {
        let count = state.withLock { state in
            state.isEnding = true
            return state.count
        }
        if count == 0 { return 0 }
        await TimeLimit.wait(atMost: limit) { [isIdle] in await isIdle.wait() }
        return self.count
    }
}
