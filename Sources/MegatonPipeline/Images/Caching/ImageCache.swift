internal import Foundation

/// A cache of decoded images: Nuke's protocol. Its methods return at once and may be called from any thread.
public protocol ImageCaching: AnyObject, Sendable {
    subscript(key: ImageCacheKey) -> ImageContainer? { get set }
    func removeAll()
}

/// Identifies a decoded image in memory.
public struct ImageCacheKey: Hashable, Sendable {
    let digest: String

    /// A custom key, e.g. from a delegate.
    public init(key: String) { digest = CacheKey(.image, [key]).digest }

    /// - Parameter request: for a local file the key has no file revision, unless the request comes from an
    ///   `ImageResponse`. `ImagePipeline.Cache` knows the last revision it saw.
    public init(request: ImageRequest) { digest = CacheKey.image(of: request).digest }
}

/// Decoded images in memory: Nuke's cache, with its limits. Recently used images survive eviction (CLOCK, second
/// chance).
public final class ImageCache: ImageCaching {
    private let cache: Cache<ImageCacheKey, ImageContainer>

    /// 15 % of the memory available to the machine or the control group, at most 768 MiB, as in Nuke.
    public static var defaultCostLimit: Int { defaultCostLimit(of: MachineMemory.limit) }

    /// - Parameter memory: bytes.
    static func defaultCostLimit(of memory: Int) -> Int { min(768 << 20, memory / 100 * 15) }

    /// - Parameters:
    ///   - costLimit: maximum total of pixels and attached data, bytes.
    ///   - countLimit: maximum number of images.
    ///   - ttl: time to live of an image; nil means no expiry.
    public init(costLimit: Int = ImageCache.defaultCostLimit, countLimit: Int = .max, ttl: Duration? = nil) {
        cache = Cache(costLimit: costLimit, countLimit: countLimit)
        cache.ttl = ttl
    }

    /// The image of a key; nil removes it.
    public subscript(key: ImageCacheKey) -> ImageContainer? {
        get { cache.value(for: key) }
        set {
            if let newValue {
                cache.set(newValue, for: key, cost: Self.cost(newValue))
            } else {
                cache.removeValue(for: key)
            }
        }
    }

    private static func cost(_ container: ImageContainer) -> Int {
        container.image.byteCount + (container.data?.count ?? 0)
    }

    /// Maximum total cost in bytes. A lower value is enforced at once.
    public var costLimit: Int {
        get { cache.costLimit }
        set { cache.costLimit = newValue }
    }

    /// Maximum number of images. A lower value is enforced at once.
    public var countLimit: Int {
        get { cache.countLimit }
        set { cache.countLimit = newValue }
    }

    /// Time to live of images stored from now on; nil means no expiry.
    public var ttl: Duration? {
        get { cache.ttl }
        set { cache.ttl = newValue }
    }

    /// An image is stored only if it costs less than this fraction of `costLimit`.
    public var entryCostLimit: Double {
        get { cache.entryCostLimit }
        set { cache.entryCostLimit = newValue }
    }

    /// Total cost of the stored images in bytes.
    public var totalCost: Int { cache.totalCost }
    /// Number of images in the cache.
    public var totalCount: Int { cache.totalCount }

    /// Evicts until the total cost is at most `limit` bytes.
    public func trim(toCost limit: Int) { cache.trim(toCost: limit) }

    /// Evicts until there are at most `limit` images.
    public func trim(toCount limit: Int) { cache.trim(toCount: limit) }

    /// Removes all images.
    public func removeAll() { cache.removeAll() }
}
