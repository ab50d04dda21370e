/// Duration of a request's own work, by kind. Waits, and work of other requests that it shares, are not included: see
/// ``QueueWaits`` for the waits in queues.
public struct StageTimes: Sendable, Hashable {
    /// Requests to origins, from the request to the last byte of the response, and reads of files.
    public var fetching = Duration.zero
    /// Work on render threads: headers, decoding, scaling, encoding.
    public var rendering = Duration.zero
    /// Writes of outputs. The pipeline writes none: its caller adds to this.
    public var storing = Duration.zero

    package init() {}
}
