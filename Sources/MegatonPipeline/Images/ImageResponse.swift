public import FoundationNetworking

/// The result of an image request.
public struct ImageResponse: Sendable {
    /// The kind of cache that had the image.
    public enum CacheType: String, Sendable, Codable {
        /// A decoded image in this process.
        case memory
        /// Bytes in a data cache, on a disk or in the cluster.
        case disk
    }

    public var container: ImageContainer
    public var request: ImageRequest
    /// The origin's response; nil if the image comes from a cache, or not from HTTP.
    public var urlResponse: URLResponse?
    /// Nil if the image was fetched. Also set if a cached intermediate result was used.
    public var cacheType: CacheType?
    /// If a data cache had the image (`.disk`), the ``DataCaching/layerName`` of that cache, or of the layer of a
    /// ``LayeredDataCache``, e.g. `memory`, `disk` or `redis`. Nil if the coordinator does not report it.
    public var cacheLayer: String?
    /// Ensures that the image is cached only once; nil if it came from the memory cache unchanged.
    var storeFlag: OnceFlag?

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
