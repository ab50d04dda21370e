internal import Foundation

/// Decoded images in memory: Nuke's cache, with its limits. What was used lately survives (CLOCK, second chance).
public final class ImageCache: ImageCaching {
    private let cache: Cache<ImageCacheKey, ImageContainer>

    /// 15 % of the memory that the machine or the control group has, 768 MiB at the most, as in Nuke.
    public static var defaultCostLimit: Int { defaultCostLimit(of: MachineMemory.limit) }

    /// - Parameter memory: bytes.
    static func defaultCostLimit(of memory: Int) -> Int { min(768 << 20, memory / 100 * 15) }

    /// - Parameters:
    ///   - costLimit: bytes of pixels, and of the data that containers hold.
    ///   - countLimit: images.
    ///   - ttl: how long each is kept; nil for as long as there is room.
    public init(costLimit: Int = ImageCache.defaultCostLimit, countLimit: Int = .max, ttl: Duration? = nil) {
        cache = Cache(costLimit: costLimit, countLimit: countLimit)
        cache.ttl = ttl
    }

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

    /// Bytes. Lowering it makes room at once.
    public var costLimit: Int {
        get { cache.costLimit }
        set { cache.costLimit = newValue }
    }

    /// Images. Lowering it makes room at once.
    public var countLimit: Int {
        get { cache.countLimit }
        set { cache.countLimit = newValue }
    }

    /// How long an image is kept that is stored from now on; nil for as long as there is room.
    public var ttl: Duration? {
        get { cache.ttl }
        set { cache.ttl = newValue }
    }

    /// The part of the cost limit below which a single image must be to be kept.
    public var entryCostLimit: Double {
        get { cache.entryCostLimit }
        set { cache.entryCostLimit = newValue }
    }

    /// Bytes of what is kept.
    public var totalCost: Int { cache.totalCost }
    public var totalCount: Int { cache.totalCount }

    /// Makes room, bytes.
    public func trim(toCost limit: Int) { cache.trim(toCost: limit) }

    /// Makes room, images.
    public func trim(toCount limit: Int) { cache.trim(toCount: limit) }

    public func removeAll() { cache.removeAll() }
}
