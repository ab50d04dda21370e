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
    /// Ends when what was fetched is kept, or is not to be.
    private let stored: Task<Void, Never>?

    /// - Parameter store: keeps the bytes and ends the flight that fetched them. It begins at once, and ends whoever is
    ///   cancelled meanwhile: others wait for that flight.
    init(
        data: Data,
        metadata: CachedData.Metadata?,
        response: URLResponse? = nil,
        isFromCache: Bool = false,
        store: (@Sendable () async -> Void)? = nil
    ) {
        self.data = data
        self.metadata = metadata
        self.response = response
        self.isFromCache = isFromCache
        // Unstructured, as it belongs to all who want these bytes. It ends by itself, within the cache's own time-outs.
        stored = store.map { store in Task { await store() } }
    }

    /// An entry of a cache, fresh or stale.
    init(_ cached: CachedData) {
        self.init(
            data: cached.data,
            metadata: cached.staleness.map { cached.metadata.aged(by: $0) } ?? cached.metadata,
            isFromCache: true
        )
    }

    /// Returns when they are kept, or are not to be.
    func isStored() async { await stored?.value }

    /// Whether a rendition was made from these bytes: the origin still calls them the same (RFC 9110 section 8.8).
    func isSource(of rendition: CachedData?) -> Bool {
        guard let metadata, let other = rendition?.metadata else { return false }
        if metadata.etag != nil || other.etag != nil { return metadata.etag == other.etag }
        return metadata.lastModified != nil && metadata.lastModified == other.lastModified
    }
}
