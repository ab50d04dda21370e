/// Identifies a decoded image in memory.
public struct ImageCacheKey: Hashable, Sendable {
    let digest: String

    /// A custom key, e.g. from a delegate.
    public init(key: String) { digest = CacheKey(.image, [key]).digest }

    /// - Parameter request: for a local file the key has no file revision, unless the request comes from an
    ///   `ImageResponse`. `ImagePipeline.Cache` knows the last revision it saw.
    public init(request: ImageRequest) { digest = CacheKey.image(of: request).digest }
}
