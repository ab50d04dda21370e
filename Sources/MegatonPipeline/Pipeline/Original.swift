internal import Foundation

/// A source's bytes.
struct Original: Sendable {
    let data: Data
    /// What is known of them; nil where neither they nor what is made of them may be kept.
    let metadata: CachedData.Metadata?
    /// Keeps the bytes and ends the flight that fetched them: the fetcher's part, beside its rendering.
    let store: (@Sendable () async -> Void)?

    init(data: Data, metadata: CachedData.Metadata?, store: (@Sendable () async -> Void)? = nil) {
        self.data = data
        self.metadata = metadata
        self.store = store
    }

    /// An entry of a cache, fresh or stale.
    init(_ cached: CachedData) {
        self.init(
            data: cached.data,
            metadata: cached.staleness.map { cached.metadata.aged(by: $0) } ?? cached.metadata
        )
    }

    func storeIfNeeded() async { await store?() }

    /// Whether a rendition was made from these bytes: the origin still calls them the same (RFC 9110 section 8.8).
    func isSource(of rendition: CachedData?) -> Bool {
        guard let metadata, let other = rendition?.metadata else { return false }
        if metadata.etag != nil || other.etag != nil { return metadata.etag == other.etag }
        return metadata.lastModified != nil && metadata.lastModified == other.lastModified
    }
}
