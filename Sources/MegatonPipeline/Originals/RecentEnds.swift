import Synchronization

/// Remembers which originals were loaded recently: a cache lookup that began before the end of a load may have missed
/// the bytes that it stored.
///
/// Bounded: at the limit it forgets all keys, and treats every earlier lookup as outdated.
final class RecentEnds: Sendable {
    private struct State {
        var last = 0
        /// Lookups with a smaller mark are outdated.
        var oldest = 0
        var ends: [CacheKey: Int] = [:]
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: maximum number of keys.
    init(limit: Int = 1024) { self.limit = limit }

    /// Number of the last end, with which a lookup can be compared later.
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
