/// A priority queue with one bucket for each priority: the most urgent bucket first; within a bucket, first in, first
/// out. Each operation takes constant time.
///
/// Nuke's rule for changes: an element whose priority rises goes behind those of its new level. One whose priority
/// falls goes ahead of them, as credit for the time it has waited.
struct PriorityBuckets<Element: Sendable>: Sendable {
    /// Doubly linked list in an array. Places are reused, so the array is as long as the queue was at most.
    private struct Place: Sendable {
        var element: Element?
        var priority: WorkPriority
        var previous: Int?
        var next: Int?
    }

    private struct Bucket: Sendable {
        var first: Int?
        var last: Int?
    }

    private var places: [Place] = []
    private var free: [Int] = []
    private var buckets = Array(repeating: Bucket(), count: WorkPriority.allCases.count)
    private(set) var count = 0

    /// - Returns: place of the element, which is valid until the element leaves.
    mutating func append(_ element: Element, priority: WorkPriority) -> Int {
        let place: Int
        if let last = free.popLast() {
            place = last
        } else {
            place = places.count
            places.append(Place(priority: priority))
        }
        places[place].element = element
        count += 1
        linkLast(place, priority)
        return place
    }

    mutating func popFirst() -> Element? {
        for bucket in buckets.reversed() {
            if let place = bucket.first { return remove(place) }
        }
        return nil
    }

    @discardableResult
    mutating func remove(_ place: Int) -> Element? {
        unlink(place)
        defer {
            places[place].element = nil
            free.append(place)
            count -= 1
        }
        return places[place].element
    }

    mutating func move(_ place: Int, to priority: WorkPriority) {
        let old = places[place].priority
        if priority == old { return }
        unlink(place)
        if priority > old {
            linkLast(place, priority)
        } else {
            linkFirst(place, priority)
        }
    }

    private mutating func linkLast(_ place: Int, _ priority: WorkPriority) {
        let last = buckets[priority.rawValue].last
        places[place].priority = priority
        places[place].previous = last
        places[place].next = nil
        buckets[priority.rawValue].last = place
        if let last { places[last].next = place } else { buckets[priority.rawValue].first = place }
    }

    private mutating func linkFirst(_ place: Int, _ priority: WorkPriority) {
        let first = buckets[priority.rawValue].first
        places[place].priority = priority
        places[place].previous = nil
        places[place].next = first
        buckets[priority.rawValue].first = place
        if let first { places[first].previous = place } else { buckets[priority.rawValue].last = place }
    }

    private mutating func unlink(_ place: Int) {
        let (previous, next) = (places[place].previous, places[place].next)
        let bucket = places[place].priority.rawValue
        if let previous { places[previous].next = next } else { buckets[bucket].first = next }
        if let next { places[next].previous = previous } else { buckets[bucket].last = previous }
    }
}
