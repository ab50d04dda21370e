import Synchronization

/// What one request cost, counted while it runs: complete also where the request fails.
public final class PipelineMetrics: Sendable {
    /// The counts.
    public struct Counts: Sendable, Equatable {
        /// Requests to an origin, failed ones included.
        public var originFetches = 0
        /// Of these, requests that the origin answered with "not modified": what was kept still holds.
        public var revalidations = 0
        /// Bytes received from origins and files.
        public var bytesIn = 0
        /// Renditions that were made.
        public var renders = 0
        /// Renditions that a cache, or somebody else's work, had.
        public var cacheHits = 0
        /// Originals that a cache, or somebody else's fetch, had.
        public var originalHits = 0
        /// Of these hits of both kinds, those that were stale: served while the origin is asked, or as it fails.
        public var staleHits = 0
        /// Waits for somebody else's flight.
        public var waits = 0
        /// What was left undone behind the answer, as `refreshConcurrency` was used up: images that were not kept, stale
        /// renditions that were not refreshed.
        public var dropped = 0
    }

    private let storage = Mutex(Counts())

    public init() {}

    public var counts: Counts { storage.withLock { $0 } }

    func update(_ change: (inout Counts) -> Void) { storage.withLock { change(&$0) } }
}
