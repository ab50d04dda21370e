internal import Foundation
internal import FoundationNetworking
internal import MegatonRendering

/// Bytes of a source.
struct Original: Sendable {
    let data: Data
    /// Metadata of the bytes; nil if neither they nor results made from them may be stored.
    let metadata: CachedData.Metadata?
    /// Response of the origin; nil if it was not asked.
    let response: URLResponse?
    /// Whether the bytes come from a cache.
    let isFromCache: Bool
    /// Name of the cache's layer, if it has one.
    let layer: String?
    /// Whether the bytes are past their lifetime.
    let isStale: Bool
    /// When the lifetime of the metadata was counted: as the bytes were received, or found in a cache.
    let received: Date
    /// Number of bytes of the whole original if these are only its first ones, see `SufficientScans`; else nil.
    let wholeLength: Int?
    /// The address that the bytes came from, if it is not public; also of bytes that must not be stored.
    let address: String?
    /// Whether the origin has confirmed the renditions of the caller, and there are no bytes.
    let confirmsRenditions: Bool
    /// Nil if there is nothing to store.
    private let writer: OriginalCacheWriter?

    /// - Parameter writer: stores the fetched bytes.
    init(
        data: Data,
        metadata: CachedData.Metadata?,
        response: URLResponse? = nil,
        isFromCache: Bool = false,
        layer: String? = nil,
        isStale: Bool = false,
        received: Date = Date(),
        wholeLength: Int? = nil,
        address: String? = nil,
        confirmsRenditions: Bool = false,
        writer: OriginalCacheWriter? = nil
    ) {
        self.data = data
        self.metadata = metadata
        self.response = response
        self.isFromCache = isFromCache
        self.layer = layer
        self.isStale = isStale
        self.received = received
        self.wholeLength = wholeLength
        self.address = address ?? metadata?.address
        self.confirmsRenditions = confirmsRenditions
        self.writer = writer
    }

    /// The original from a cache entry, fresh or stale.
    ///
    /// - Parameter found: when the entry was looked up.
    init(_ cached: CachedData, found: Date) {
        self.init(
            data: cached.data,
            metadata: cached.staleness.map { cached.metadata.aged(by: $0) } ?? cached.metadata,
            isFromCache: true,
            layer: cached.layer,
            isStale: cached.staleness != nil,
            received: found
        )
    }

    /// The origin's response for a caller of `data(for:)`: for a cache entry the stored response, with `Age` (RFC 9111
    /// section 4). Nil if no origin has sent the bytes.
    func answer(for url: URL?) -> URLResponse? {
        if let response { return response }
        guard isFromCache, let url, let metadata, metadata.status != nil else { return nil }
        return CachedData(data: data, metadata: metadata).response(for: url)
    }

    /// Metadata for results that are made from the bytes now.
    func currentMetadata(at now: Date) -> CachedData.Metadata? { metadata?.elapsed(now.timeIntervalSince(received)) }

    /// Stores the bytes, unless they are stored already.
    func store() { writer?.store() }

    /// Returns when the bytes are stored, or will not be.
    func isStored() async { await writer?.isDone() }

    /// Whether other callers wait for a flight until the bytes are stored.
    var isStoredInFlight: Bool { writer?.isCoordinated == true }

    /// Whether a rendition was made from these bytes, by the origin's validators (RFC 9110 section 8.8).
    func isSource(of rendition: CachedData?) -> Bool {
        guard let metadata, let other = rendition?.metadata, metadata.responder == other.responder else { return false }
        if metadata.etag != nil || other.etag != nil { return metadata.etag == other.etag }
        guard metadata.lastModified != nil, metadata.lastModified == other.lastModified else { return false }
        // The date has whole seconds, and an original that was replaced within one may have it too (RFC 9110 section
        // 8.8.2.2).
        let facts = other.facts.flatMap(SourceFacts.init(packed:))
        return facts.map { $0.bytes == wholeLength ?? data.count } ?? true
    }
}
