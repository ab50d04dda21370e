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
    /// SSIMULACRA2 score of the encoded image beside its pixels, 100 for no difference; of its middle if it is larger
    /// than 512 pixels. Nil if the rendition has no `targetScore`, or if the image has less than 8 pixels in a row or
    /// column.
    public let score: Double?
    /// Version of the original; nil if it is not known.
    package var original: OriginalVersion?
    /// Key of its entry in the caches, whether they have one or not.
    package internal(set) var cacheKey: CacheKey?
    /// How long it may be used; nil if it must not be stored, or if that is not known.
    package internal(set) var freshness: RenditionFreshness?
}

/// How long a rendition may be used, by the response of its origin (RFC 9111).
package struct RenditionFreshness: Sendable, Equatable {
    /// Seconds for which it is fresh; 0 if it is stale.
    package let lifetime: Double
    /// Upper bound of `lifetime` in caches of single clients, if the origin allows shared caches more (`s-maxage`).
    package let clientLifetime: Double?
    /// Seconds after the lifetime in which it may be served while it is revalidated; nil for none.
    package let staleWhileRevalidate: Double?
    /// Whether the origin has stated a lifetime; otherwise `lifetime` is a guess.
    package let isStated: Bool
    /// Whether the origin leaves it to caches to use a stale rendition.
    package let mayBeStale: Bool

    package init(
        lifetime: Double,
        clientLifetime: Double? = nil,
        staleWhileRevalidate: Double? = nil,
        isStated: Bool = true,
        mayBeStale: Bool = true
    ) {
        self.lifetime = lifetime
        self.clientLifetime = clientLifetime
        self.staleWhileRevalidate = staleWhileRevalidate
        self.isStated = isStated
        self.mayBeStale = mayBeStale
    }

    /// - Parameter metadata: as a cache has returned it, with the remaining lifetime.
    init(_ metadata: CachedData.Metadata) {
        let control = CacheControl(metadata.headers?["cache-control"])
        var clientLifetime: Double?
        if case .value(let shared) = control.seconds("s-maxage"), case .value(let own) = control.seconds("max-age") {
            // Both begin with the response, whose age is the part of the shared lifetime that is over.
            clientLifetime = max(0, own - max(0, shared - metadata.lifetime))
        }
        self.init(
            lifetime: metadata.lifetime,
            clientLifetime: clientLifetime,
            staleWhileRevalidate: metadata.staleWhileRevalidate,
            // `no-cache` for some fields only says nothing about the rest.
            isStated: ["s-maxage", "max-age"].contains(where: control.contains)
                || control.scope("no-cache") == .everything || metadata.headers?["expires"] != nil,
            mayBeStale: control.scope("no-cache") != .everything
                && !["must-revalidate", "proxy-revalidate"].contains(where: control.contains)
        )
    }
}

/// The version of an original: when its origin was asked, and the validators in its response.
package struct OriginalVersion: Sendable, Equatable {
    /// As `CachedData.Metadata.fetched`.
    package let fetched: Double?
    /// The entity tag.
    package let etag: String?
    /// The `Last-Modified` date.
    package let lastModified: String?

    package init(_ metadata: CachedData.Metadata) {
        fetched = metadata.fetched
        etag = metadata.etag
        lastModified = metadata.lastModified
    }

    /// Whether an entry was made from the same bytes, by the origin's validators; false if there are none.
    package func isSame(as other: CachedData.Metadata) -> Bool {
        if etag != nil || other.etag != nil { return etag == other.etag }
        return lastModified != nil && lastModified == other.lastModified
    }
}

extension RenditionResponse {
    init(_ rendition: Rendition, _ image: EncodedImage, of original: CachedData.Metadata?) {
        self.init(
            rendition: rendition,
            data: image.data,
            size: image.size,
            source: .render,
            checksum: nil,
            cacheLayer: nil,
            notes: image.notes,
            facts: image.facts,
            score: image.score,
            original: original.map(OriginalVersion.init),
            freshness: original.map(RenditionFreshness.init)
        )
    }

    /// - Parameter original: metadata of the original that was just confirmed; that of the entry by default.
    init(_ rendition: Rendition, _ cached: CachedData, of original: CachedData.Metadata? = nil) {
        let size = PixelSize(width: cached.metadata.width ?? 0, height: cached.metadata.height ?? 0)
        self.init(
            rendition: rendition,
            data: cached.data,
            size: size,
            source: .cache,
            checksum: cached.checksum,
            cacheLayer: cached.layer,
            notes: RenderNotes.merged([], cached.metadata.notes ?? []),
            facts: cached.metadata.facts.flatMap(SourceFacts.init(packed:)),
            score: cached.metadata.score,
            original: OriginalVersion(original ?? cached.metadata),
            freshness: RenditionFreshness(
                original ?? cached.staleness.map { cached.metadata.aged(by: $0) } ?? cached.metadata
            )
        )
    }

    /// The same rendition for a request that did not make it.
    func fromCache() -> RenditionResponse {
        with(rendition, .cache)
    }

    /// The same response without anything that a client could keep it by: no lifetime, and no validators of the origin.
    var withoutLifetime: RenditionResponse { with(rendition, source, keepsLifetime: false) }

    /// The same response for the rendition as it was requested.
    func named(_ rendition: Rendition, _ key: CacheKey) -> RenditionResponse {
        var named = with(rendition, source)
        named.cacheKey = key
        return named
    }

    private func with(_ rendition: Rendition, _ source: Source, keepsLifetime: Bool = true) -> RenditionResponse {
        RenditionResponse(
            rendition: rendition,
            data: data,
            size: size,
            source: source,
            checksum: checksum,
            cacheLayer: cacheLayer,
            notes: notes,
            facts: facts,
            score: score,
            original: keepsLifetime ? original : nil,
            cacheKey: cacheKey,
            freshness: keepsLifetime ? freshness : nil
        )
    }
}
