internal import Synchronization

/// Small cache of computed values by their keys, for keys of which few occur at a time, such as the renditions of a
/// batch. A lookup compares all keys, and the oldest value makes room for a new one.
package struct RecentValues<Key: Equatable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    private let values = Mutex<[(key: Key, value: Value)]>([])
    private let limit: Int

    /// - Parameter limit: maximum number of values.
    package init(limit: Int) { self.limit = limit }

    /// The value of a key.
    ///
    /// - Parameter compute: called if the value is not known. Two threads that miss at the same time both call it.
    package func value(of key: Key, _ compute: () -> Value) -> Value {
        if let known = values.withLock({ $0.last { $0.key == key }?.value }) { return known }
        let value = compute()
        values.withLock { values in
            if values.contains(where: { $0.key == key }) { return }
            if values.count >= limit { values.removeFirst() }
            values.append((key, value))
        }
        return value
    }
}
