/// Duration of a request's own work, by kind. Waits, and work of other requests that it shares, are not included: see
/// ``QueueWaits`` for the waits in queues.
public struct StageTimes: Sendable, Hashable {
    /// Requests to origins, from the request to the last byte of the response, and reads of files.
    public var fetching = Duration.zero
    /// Work on render threads: headers, decoding, scaling, encoding.
    public var rendering = Duration.zero
    /// Writes of outputs. The pipeline writes none: its caller adds to this.
    public var storing = Duration.zero

    public init() {}
}

/// Limits on the remarks about a render, which are stored in caches and ledgers.
public enum RenderNotes {
    /// Maximum number of remarks on one image, or on the images of one job.
    public static let maximumCount = 8
    /// Maximum length of a remark in characters.
    public static let maximumLength = 300

    /// Both lists without duplicates, each remark truncated to the limit.
    static func merged(_ notes: [String], _ more: [String]) -> [String] {
        var merged = notes
        for note in more.map({ String($0.prefix(maximumLength)) }) where merged.count < maximumCount {
            if !merged.contains(note) { merged.append(note) }
        }
        return merged
    }
}
