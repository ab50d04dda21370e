import Synchronization

/// Remembers which originals were loaded a short time ago: a look at a cache that was begun before such an end may have
/// missed the bytes that the load has stored.
///
/// Bounded: when it has too many names it forgets them all, and regards every earlier look as too old.
final class RecentEnds: Sendable {
    private struct State {
        var last = 0
        /// Looks with a smaller mark are too old.
        var oldest = 0
        var ends: [CacheKey: Int] = [:]
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: names that are remembered.
    init(limit: Int = 1024) { self.limit = limit }

    /// The present moment.
    var mark: Int { state.withLock { $0.last } }

    func note(_ key: CacheKey) {
        state.withLock { state in
            state.last += 1
            if state.ends.count >= limit {
                state.ends = [:]
                state.oldest = state.last
            }
            state.ends[key] = state.last
        }
    }

    /// Whether a load of the original may have ended after the mark.
    func hasEnded(_ key: CacheKey, since mark: Int) -> Bool {
        state.withLock { mark < $0.oldest || ($0.ends[key] ?? 0) > mark }
    }
}
