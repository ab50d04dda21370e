internal import MegatonPipeline

/// Numbers that attempts add to the counters of their batch.
struct AttemptCounters: Sendable, Equatable {
    private var originFetches = 0
    private var renders = 0
    private var bytesFetched = 0
    /// Renditions of attempts that have succeeded, and those of them from a cache.
    private var renditions = 0
    private var cacheHits = 0

    init() {}

    init(_ counts: PipelineMetrics.Counts, _ result: JobRunner.Result?) { add(counts, result) }

    mutating func add(_ counts: PipelineMetrics.Counts, _ result: JobRunner.Result?) {
        originFetches += counts.originFetches
        renders += counts.renders
        bytesFetched += counts.bytesIn
        guard case .done(let outputs) = result else { return }
        renditions += outputs.count
        cacheHits += outputs.count { $0.from == .cache }
    }

    /// The numbers by the names of the counters.
    var byName: [String: Int] {
        [
            "origin_fetches": originFetches, "renders": renders, "bytes_fetched": bytesFetched,
            "renditions": renditions, "cache_hits": cacheHits,
        ]
    }
}
