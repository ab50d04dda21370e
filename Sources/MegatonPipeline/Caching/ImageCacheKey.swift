/// The name of a decoded picture in memory.
public struct ImageCacheKey: Hashable, Sendable {
    let digest: String

    /// A name of one's own, as a delegate gives it.
    public init(key: String) { digest = CacheKey(.image, [key]).digest }

    public init(request: ImageRequest) { digest = CacheKey.image(of: request).digest }
}
