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
