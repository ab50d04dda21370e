/// How urgent work is. More urgent work that waits for a place begins first; what has begun is not stopped for it.
///
/// Nuke's five levels (`ImageRequest.Priority`). There is no ageing: while there is always something more urgent, work
/// of a lower level waits.
public enum WorkPriority: Int, Sendable, Codable, CaseIterable, Comparable {
    case veryLow
    case low
    case normal
    case high
    case veryHigh

    public static func < (left: WorkPriority, right: WorkPriority) -> Bool { left.rawValue < right.rawValue }
}
