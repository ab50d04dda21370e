internal import Foundation
internal import FoundationNetworking

/// A source's bytes.
struct Original: Sendable {
    let data: Data
    /// What is known of them; nil where neither they nor what is made of them may be kept.
    let metadata: CachedData.Metadata?
    /// What the origin said; nil where a cache had them.
    let response: URLResponse?
    /// Whether a cache had them.
    let isFromCache: Bool
    /// Which one, where it tells.
    let layer: String?
    /// Whether it is past its lifetime.
    let isStale: Bool
    /// Nil where there is nothing to be kept.
    private let keeping: OriginalKeeping?

    /// - Parameter keeping: keeps the bytes that have been fetched.
    init(
        data: Data,
        metadata: CachedData.Metadata?,
        response: URLResponse? = nil,
        isFromCache: Bool = false,
        layer: String? = nil,
        isStale: Bool = false,
        keeping: OriginalKeeping? = nil
    ) {
        self.data = data
        self.metadata = metadata
        self.response = response
        self.isFromCache = isFromCache
        self.layer = layer
        self.isStale = isStale
        self.keeping = keeping
    }

    /// An entry of a cache, fresh or stale.
    init(_ cached: CachedData) {
        self.init(
            data: cached.data,
            metadata: cached.staleness.map { cached.metadata.aged(by: $0) } ?? cached.metadata,
            isFromCache: true,
            layer: cached.layer,
            isStale: cached.staleness != nil
        )
    }

    /// The origin's answer as a caller of `data(for:)` gets it: of an entry the stored one, with `Age` (RFC 9111
    /// section 4). Nil of what no origin has answered.
    func answer(for url: URL?) -> URLResponse? {
        if let response { return response }
        guard isFromCache, let url, let metadata, metadata.status != nil else { return nil }
        return CachedData(data: data, metadata: metadata).response(for: url)
    }

    /// Keeps them, if nobody has wanted that before.
    func keep() { keeping?.keep() }

    /// Returns when they are kept, or are not to be.
    func isStored() async { await keeping?.ended() }

    /// Whether a rendition was made from these bytes: the origin still calls them the same (RFC 9110 section 8.8).
    func isSource(of rendition: CachedData?) -> Bool {
        guard let metadata, let other = rendition?.metadata else { return false }
        if metadata.etag != nil || other.etag != nil { return metadata.etag == other.etag }
        return metadata.lastModified != nil && metadata.lastModified == other.lastModified
    }
}
