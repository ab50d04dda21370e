internal import Synchronization

/// The values that were computed last, by their keys: for keys of which few occur at a time, such as the renditions of
/// a batch. They are compared one after another, so that the limit is small.
package struct RecentValues<Key: Equatable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    private let values = Mutex<[(key: Key, value: Value)]>([])
    private let limit: Int

    /// - Parameter limit: maximum number of values; the oldest one makes room.
    package init(limit: Int) { self.limit = limit }

    /// The value of a key.
    ///
    /// - Parameter compute: called if the value is not known; two threads may call it for one key at a time.
    package func value(of key: Key, _ compute: () -> Value) -> Value {
        if let known = values.withLock({ $0.last { $0.key == key }?.value }) { return known }
        let value = compute()
        values.withLock { values in
            if values.count >= limit { values.removeFirst() }
            values.append((key, value))
        }
        return value
    }
}
