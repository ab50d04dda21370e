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

    private var places: [Entry?] = []
    private var freePlaces: [Int] = []
    private var index: [Key: Int] = [:]
    /// The next entry to evict.
    private var first: Int?
    private var last: Int?
    private(set) var totalCost = 0

    var count: Int { index.count }

    /// Returns the value for a key and marks its entry as used, which gives it a second chance. An expired entry is
    /// removed.
    mutating func use(_ key: Key, at now: Duration) -> Value? {
        guard let place = index[key], let entry = places[place] else { return nil }
        if Self.isExpired(entry, at: now) {
            take(place)
            return nil
        }
        places[place]?.isUsed = true
        return entry.value
    }

    func contains(_ key: Key, at now: Duration) -> Bool {
        guard let place = index[key], let entry = places[place] else { return false }
        return !Self.isExpired(entry, at: now)
    }

    /// Adds an entry for a key that has none, at the end of the list.
    mutating func insert(_ value: Value, for key: Key, cost: Int, expiry: Duration?, isUsed: Bool) {
        let entry = Entry(key: key, value: value, cost: cost, expiry: expiry, isUsed: isUsed)
        let place: Int
        if let free = freePlaces.popLast() {
            place = free
            places[place] = entry
        } else {
            place = places.count
            places.append(entry)
        }
        index[key] = place
        totalCost += cost
        append(place)
    }

    @discardableResult
    mutating func remove(_ key: Key) -> Value? {
        guard let place = index[key] else { return nil }
        let value = places[place]?.value
        take(place)
        return value
    }

    /// Evicts until neither total is above its limit. An entry at the front that was used since it was last there moves
    /// to the end; any other is removed. Each step removes an entry or clears a bit, so the loop terminates.
    mutating func evict(downTo limit: (cost: Int, count: Int), at now: Duration) {
        while totalCost > limit.cost || count > limit.count, let place = first, let entry = places[place] {
            if entry.isUsed, !Self.isExpired(entry, at: now) {
                unlink(place)
                places[place]?.isUsed = false
                append(place)
            } else {
                take(place)
            }
        }
    }

    // MARK: -

    private static func isExpired(_ entry: Entry, at now: Duration) -> Bool {
        entry.expiry.map { $0 <= now } ?? false
    }

    private mutating func take(_ place: Int) {
        guard let entry = places[place] else { return }
        unlink(place)
        index[entry.key] = nil
        totalCost -= entry.cost
        places[place] = nil
        freePlaces.append(place)
    }

    private mutating func unlink(_ place: Int) {
        let (previous, next) = (places[place]?.previous, places[place]?.next)
        if let previous { places[previous]?.next = next } else { first = next }
        if let next { places[next]?.previous = previous } else { last = previous }
    }

    private mutating func append(_ place: Int) {
        places[place]?.previous = last
        places[place]?.next = nil
        if let last { places[last]?.next = place } else { first = place }
        last = place
    }
}
