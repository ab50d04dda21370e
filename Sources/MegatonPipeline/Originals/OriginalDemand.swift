import Synchronization

/// Tracks which in-flight originals are wanted, to be stored or for previews. One is wanted if any waiting request that
/// shares its download wants it.
final class OriginalDemand: Sendable {
    /// One request's claim on an original, until `end` or deinitialization.
    final class Claim: Sendable {
        private let demand: OriginalDemand
        private let key: OriginalLoadKey
        private let isOpen = Mutex(true)

        fileprivate init(_ demand: OriginalDemand, _ key: OriginalLoadKey) {
            self.demand = demand
            self.key = key
        }

        deinit { end() }

        func end() {
            let wasOpen = isOpen.withLock { isOpen in
                defer { isOpen = false }
                return isOpen
            }
            if wasOpen { demand.remove(key) }
        }
    }

    private let counts = Mutex<[OriginalLoadKey: Int]>([:])

    /// - Returns: nil if the request does not want it.
    func claim(_ key: OriginalLoadKey, if isWanted: Bool) -> Claim? {
        guard isWanted else { return nil }
        counts.withLock { $0[key, default: 0] += 1 }
        return Claim(self, key)
    }

    func contains(_ key: OriginalLoadKey) -> Bool { counts.withLock { $0[key] != nil } }

    private func remove(_ key: OriginalLoadKey) {
        counts.withLock { counts in
            let count = counts[key] ?? 0
            counts[key] = count > 1 ? count - 1 : nil
        }
    }
}
