import Synchronization

/// Which originals somebody who waits wants kept: whether one is depends on all who share its download.
final class OriginalDemand: Sendable {
    /// One who wants an original kept, until `end` or until it is gone.
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

    /// - Returns: nil where the request does not want its original kept.
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
