/// How long a request's own work took, by its kind. Neither waits nor work that other requests did for it are in it: see
/// ``QueueWaits`` for the waits in queues.
public struct StageTimes: Sendable, Hashable {
    /// Requests to origins, from the request to the last byte of the answer, and reads of files.
    public var fetching = Duration.zero
    /// On render threads: headers, decoding, scaling, encoding.
    public var rendering = Duration.zero
    /// Writing of outputs. The pipeline writes none: its caller adds to this.
    public var storing = Duration.zero

    public init() {}
}

/// Bounds of the remarks on a render, which travel into caches and ledgers.
public enum RenderNotes {
    /// Remarks on one image, or on one job's.
    public static let maximumCount = 8
    /// Characters of each.
    public static let maximumLength = 300

    /// Both lists, each remark once and cut to its bound.
    static func merged(_ notes: [String], _ more: [String]) -> [String] {
        var merged = notes
        for note in more.map({ String($0.prefix(maximumLength)) }) where merged.count < maximumCount {
            if !merged.contains(note) { merged.append(note) }
        }
        return merged
    }
}
