public import FoundationNetworking
import Synchronization

/// The result of an image request.
public struct ImageResponse: Sendable {
    /// The kind of cache that had the image.
    public enum CacheType: String, Sendable, Codable {
        /// A decoded image in this process.
        case memory
        /// Bytes in a data cache, on a disk or in the cluster.
        case disk
    }

    /// The image with its type and its original bytes.
    public var container: ImageContainer
    /// The request that was answered.
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

    /// Creates a response.
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

    /// The image.
    public var image: PlatformImage { container.image }
    /// Whether the image was decoded from a part of its bytes.
    public var isPreview: Bool { container.isPreview }
}

extension ImageResponse {
    /// The same response for another request that it answers.
    func `for`(_ request: ImageRequest) -> ImageResponse {
        var response = self
        response.request = request
        // The revision of the file that was loaded counts, not the one that the other request was given.
        response.request.revision = self.request.revision
        response.request.originalName = request.originalName
        return response
    }
}

/// Ensures that an image is stored once, however many tasks have requested it.
final class OnceFlag: Sendable {
    private let state = Mutex(false)

    /// True on the first call.
    func isFirst() -> Bool {
        state.withLock { wasAsked in
            defer { wasAsked = true }
            return !wasAsked
        }
    }
}

extension ImageResponse {
    /// The same response, to be stored once for the tasks that requested it.
    func storedOnce() -> ImageResponse {
        var response = self
        response.storeFlag = OnceFlag()
        return response
    }
}
