import MegatonPipeline
import Synchronization

/// An image cache that empties itself once it would hold too many images.
final class FewImages: ImageCaching {
    private let images = Mutex<[ImageCacheKey: ImageContainer]>([:])

    subscript(key: ImageCacheKey) -> ImageContainer? {
        get { images.withLock { $0[key] } }
        set {
            images.withLock { images in
                if images.count >= 100 { images = [:] }
                images[key] = newValue
            }
        }
    }

    func removeAll() { images.withLock { $0 = [:] } }
}
