public import FoundationNetworking

/// What an image request has brought.
public struct ImageResponse: Sendable {
    /// Which cache had it.
    public enum CacheType: String, Sendable, Codable {
        /// Decoded, in this process.
        case memory
        /// Bytes, in a data cache: a disk's, or the cluster's.
        case disk
    }

    public var container: ImageContainer
    public var request: ImageRequest
    /// What the origin said; nil where a cache had it, or where there is no HTTP.
    public var urlResponse: URLResponse?
    /// Nil where it was fetched. Also told of an intermediate result that was used.
    public var cacheType: CacheType?
    /// Where a data cache had it (`.disk`), the ``DataCaching/layerName`` of that cache, or of the layer of a
    /// ``LayeredDataCache``: `memory`, `disk` or `redis`, say. Nil where a coordinator of flights does not tell.
    public var cacheLayer: String?
    /// Nil where it is in memory as it is.
    var keeper: ImageKeeper?

    public init(
        container: ImageContainer,
        request: ImageRequest,
        urlResponse: URLResponse? = nil,
        cacheType: CacheType? = nil,
        cacheLayer: String? = nil
    ) {
        self.container = container
        self.request = request
        self.urlResponse = urlResponse
        self.cacheType = cacheType
        self.cacheLayer = cacheLayer
    }

    public var image: PlatformImage { container.image }
    public var isPreview: Bool { container.isPreview }
}
