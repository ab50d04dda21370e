/// The name of a decoded picture in memory.
public struct ImageCacheKey: Hashable, Sendable {
    let digest: String

    /// A name of one's own, as a delegate gives it.
    public init(key: String) { digest = CacheKey(.image, [key]).digest }

    /// - Parameter request: one for a local file is named without what the file looks like, unless it is the request of an
    ///   `ImageResponse`; `ImagePipeline.Cache` knows what it looked like last.
    public init(request: ImageRequest) { digest = CacheKey.image(of: request).digest }
}
