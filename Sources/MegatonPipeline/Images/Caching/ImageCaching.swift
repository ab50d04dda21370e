/// A cache of decoded images: Nuke's protocol. Its methods return at once and may be called from any thread.
public protocol ImageCaching: AnyObject, Sendable {
    subscript(key: ImageCacheKey) -> ImageContainer? { get set }
    func removeAll()
}
