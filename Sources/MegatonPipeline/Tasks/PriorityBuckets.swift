/// Urgency of work. More urgent work starts first when a slot becomes free; running work is not interrupted.
///
/// Nuke's five levels (`ImageRequest.Priority`). There is no aging: as long as there is more urgent work, work of a
/// lower level waits.
public enum WorkPriority: Int, Sendable, Codable, CaseIterable, Comparable {
    case veryLow
    case low
    case normal
    case high
    case veryHigh

    public static func < (left: WorkPriority, right: WorkPriority) -> Bool { left.rawValue < right.rawValue }
}

/// A priority queue with one bucket for each priority: the most urgent bucket first; within a bucket, first in, first
/// out. Each operation takes constant time.
///
/// Nuke's rule for changes: an element whose priority rises goes behind those of its new level. One whose priority
/// falls goes ahead of them, as credit for the time it has waited.
struct PriorityBuckets<Element: Sendable>: Sendable {
    /// Doubly linked list in an array. Nodes are reused, so the array is as long as the queue was at most.
    private struct Node: Sendable {
        var element: Element?
        var priority: WorkPriority
        var previous: Int?
        var next: Int?
    }

    private struct Bucket: Sendable {
        var first: Int?
        var last: Int?
    }

    private var nodes: [Node] = []
    private var free: [Int] = []
    private var buckets = Array(repeating: Bucket(), count: WorkPriority.allCases.count)
    private(set) var count = 0

    var first: Element? {
        for bucket in buckets.reversed() {
            if let index = bucket.first { return nodes[index].element }
        }
        return nil
    }

    /// - Returns: index of the element, which is valid until the element leaves.
    mutating func append(_ element: Element, priority: WorkPriority) -> Int {
        let index: Int
        if let last = free.popLast() {
            index = last
        } else {
            index = nodes.count
            nodes.append(Node(priority: priority))
        }
        nodes[index].element = element
        count += 1
        linkLast(index, priority)
        return index
    }

    mutating func popFirst() -> Element? {
        for bucket in buckets.reversed() {
            if let index = bucket.first { return remove(index) }
        }
        return nil
    }

    @discardableResult
    mutating func remove(_ index: Int) -> Element? {
        unlink(index)
        defer {
            nodes[index].element = nil
            free.append(index)
            count -= 1
        }
        return nodes[index].element
    }

    mutating func move(_ index: Int, to priority: WorkPriority) {
        let old = nodes[index].priority
        if priority == old { return }
        unlink(index)
        if priority > old {
            linkLast(index, priority)
        } else {
            linkFirst(index, priority)
        }
    }

    private mutating func linkLast(_ index: Int, _ priority: WorkPriority) {
        let last = buckets[priority.rawValue].last
        nodes[index].priority = priority
        nodes[index].previous = last
        nodes[index].next = nil
        buckets[priority.rawValue].last = index
        if let last { nodes[last].next = index } else { buckets[priority.rawValue].first = index }
    }

    private mutating func linkFirst(_ index: Int, _ priority: WorkPriority) {
        let first = buckets[priority.rawValue].first
        nodes[index].priority = priority
        nodes[index].previous = nil
        nodes[index].next = first
        buckets[priority.rawValue].first = index
        if let first { nodes[first].previous = index } else { buckets[priority.rawValue].last = index }
    }

    private mutating func unlink(_ index: Int) {
        let (previous, next) = (nodes[index].previous, nodes[index].next)
        let bucket = nodes[index].priority.rawValue
        if let previous { nodes[previous].next = next } else { buckets[bucket].first = next }
        if let next { nodes[next].previous = previous } else { buckets[bucket].last = previous }
    }
}
