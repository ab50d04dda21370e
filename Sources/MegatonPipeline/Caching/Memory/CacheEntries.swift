/// The entries of a `Cache` in the order of eviction: a linked list within an array, so that each change takes constant
/// time.
struct CacheEntries<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry {
        let key: Key
        let value: Value
        let cost: Int
        let expiry: Duration?
        var isUsed: Bool
        var previous: Int?
        var next: Int?
    }

    private var slots: [Entry?] = []
    private var freeSlots: [Int] = []
    private var index: [Key: Int] = [:]
    /// The next entry to evict.
    private var first: Int?
    private var last: Int?
    private(set) var totalCost = 0

    var count: Int { index.count }

    /// Returns the value for a key and marks its entry as used, which gives it a second chance. An expired entry is
    /// removed.
    mutating func use(_ key: Key, at now: Duration) -> Value? {
        guard let slot = index[key], let entry = slots[slot] else { return nil }
        if Self.isExpired(entry, at: now) {
            take(slot)
            return nil
        }
        slots[slot]?.isUsed = true
        return entry.value
    }

    func contains(_ key: Key, at now: Duration) -> Bool {
        guard let slot = index[key], let entry = slots[slot] else { return false }
        return !Self.isExpired(entry, at: now)
    }

    /// Adds an entry for a key that has none, at the end of the list.
    mutating func insert(_ value: Value, for key: Key, cost: Int, expiry: Duration?, isUsed: Bool) {
        let entry = Entry(key: key, value: value, cost: cost, expiry: expiry, isUsed: isUsed)
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
            slots[slot] = entry
        } else {
            slot = slots.count
            slots.append(entry)
        }
        index[key] = slot
        totalCost += cost
        append(slot)
    }

    @discardableResult
    mutating func remove(_ key: Key) -> Value? {
        guard let slot = index[key] else { return nil }
        let value = slots[slot]?.value
        take(slot)
        return value
    }

    /// Evicts until neither total is above its limit. An entry at the front that was used since it was last there moves
    /// to the end; any other is removed. Each step removes an entry or clears a bit, so the loop terminates.
    mutating func evict(downTo limit: (cost: Int, count: Int), at now: Duration) {
        while totalCost > limit.cost || count > limit.count, let slot = first, let entry = slots[slot] {
            if entry.isUsed, !Self.isExpired(entry, at: now) {
                unlink(slot)
                slots[slot]?.isUsed = false
                append(slot)
            } else {
                take(slot)
            }
        }
    }

    // MARK: -

    private static func isExpired(_ entry: Entry, at now: Duration) -> Bool {
        entry.expiry.map { $0 <= now } ?? false
    }

    private mutating func take(_ slot: Int) {
        guard let entry = slots[slot] else { return }
        unlink(slot)
        index[entry.key] = nil
        totalCost -= entry.cost
        slots[slot] = nil
        freeSlots.append(slot)
    }

    private mutating func unlink(_ slot: Int) {
        let (previous, next) = (slots[slot]?.previous, slots[slot]?.next)
        if let previous { slots[previous]?.next = next } else { first = next }
        if let next { slots[next]?.previous = previous } else { last = previous }
    }

    private mutating func append(_ slot: Int) {
        slots[slot]?.previous = last
        slots[slot]?.next = nil
        if let last { slots[last]?.next = slot } else { first = slot }
        last = slot
    }
}
