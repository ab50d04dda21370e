/// A rendition that a cache has.
package struct CachedRendition: Sendable {
    package let response: RenditionResponse
    /// Whether it may be used without a request to the origin.
    package let isFresh: Bool
    /// Whether the origin allows its use while it is revalidated.
    package let mayServeWhileRevalidating: Bool
    /// Whether the origin allows its use while it cannot be asked.
    package let mayServeOnFailure: Bool
    /// Equal in all processes that find this entry; another one when the origin has been asked again.
    package let version: String
    fileprivate let layer: String?

    /// Counts a use of the entry.
    package func addHit(to metrics: PipelineMetrics) {
        metrics.update {
            $0.cacheHits += 1
            if !isFresh { $0.staleHits += 1 }
            $0.addHit(in: layer)
        }
    }
}

extension ImagePipeline {
    /// Looks a rendition up, fresh or stale, for a process that lets others render: nothing is fetched, rendered,
    /// revalidated or announced to other processes. The metrics of a request have no hit before
    /// `CachedRendition.addHit(to:)`; the counters of the shared cache have each lookup.
    ///
    /// - Returns: nil if no cache has it, or if its source is not one that is cached.
    /// - Throws: `.invalidURL` or `.forbidden` for a source that this pipeline would not load.
    package func cachedRendition(
        _ rendition: Rendition,
        for request: ImageRequest
    ) async throws(Error) -> CachedRendition? {
        try await whileOpen(for: request) { [self] () async throws(Error) -> CachedRendition? in
            let origin = try await self.source(of: self.named(request))
            let wanted = try Watermarks.resolve(rendition, in: configuration.watermarks)
            let key = origin.key.rendition(wanted, by: configuration.renderEngine)
            guard origin.isCacheable else { return nil }
            let entries = await origin.flights.lookUpStale([key])
            guard let entry = entries.first ?? nil else { return nil }
            let asked = entry.metadata.fetched ?? entry.metadata.stored
            return CachedRendition(
                response: RenditionResponse(wanted, entry).named(rendition, key),
                isFresh: entry.staleness == nil,
                mayServeWhileRevalidating: entry.mayServeWhileRevalidating,
                mayServeOnFailure: entry.mayServeOnFailure,
                version: asked.map { "\($0)" } ?? "unknown",
                layer: entry.layer
            )
        }
    }
}
