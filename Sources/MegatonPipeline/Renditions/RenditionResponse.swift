public import Foundation

/// A finished rendition, and how it was obtained.
public struct RenditionResponse: Sendable {
    /// How the rendition was obtained.
    public enum Source: String, Sendable, Codable {
        /// This request rendered it.
        case render
        /// A cache had it, or another request was rendering it.
        case cache
    }

    /// The rendition that was requested.
    public let rendition: Rendition
    /// The encoded image.
    public let data: Data
    /// Pixels.
    public let size: PixelSize
    /// Origin of the bytes: rendered now, or found in a cache.
    public let source: Source
    /// SHA-256 of the data in hex, if it is already known.
    public let checksum: String?
    /// The ``DataCaching/layerName`` of the cache that had it, as in ``ImageResponse/cacheLayer``; nil if it was
    /// rendered.
    public let cacheLayer: String?
    /// Notes on problems of the source, in sentences for people: damage in spite of which it was rendered, or a color
    /// profile that does not fit. At most eight.
    public let notes: [String]
    /// Facts about the source, which a cached rendition keeps. Nil if an earlier version has cached it.
    public let facts: SourceFacts?
    /// Key of its entry in the caches, whether they have one or not.
    package internal(set) var cacheKey: CacheKey?
}

extension RenditionResponse {
    init(_ rendition: Rendition, _ image: EncodedImage) {
        self.init(
            rendition: rendition,
            data: image.data,
            size: image.size,
            source: .render,
            checksum: nil,
            cacheLayer: nil,
            notes: image.notes,
            facts: image.facts
        )
    }

    init(_ rendition: Rendition, _ cached: CachedData) {
        let size = PixelSize(width: cached.metadata.width ?? 0, height: cached.metadata.height ?? 0)
        self.init(
            rendition: rendition,
            data: cached.data,
            size: size,
            source: .cache,
            checksum: cached.checksum,
            cacheLayer: cached.layer,
            notes: RenderNotes.merged([], cached.metadata.notes ?? []),
            facts: cached.metadata.facts.flatMap(SourceFacts.init(packed:))
        )
    }

    /// The same rendition for a request that did not make it.
    func fromCache() -> RenditionResponse {
        with(rendition, .cache)
    }

    /// The same response for the rendition as it was requested.
    func named(_ rendition: Rendition, _ key: CacheKey) -> RenditionResponse {
        var named = with(rendition, source)
        named.cacheKey = key
        return named
    }

    private func with(_ rendition: Rendition, _ source: Source) -> RenditionResponse {
        RenditionResponse(
            rendition: rendition,
            data: data,
            size: size,
            source: source,
            checksum: checksum,
            cacheLayer: cacheLayer,
            notes: notes,
            facts: facts
        )
    }
}
