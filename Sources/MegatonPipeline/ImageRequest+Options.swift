extension ImageRequest {
    /// Which of those who wait goes first. It changes nothing about what runs already.
    public typealias Priority = WorkPriority

    /// How the caches are used: Nuke's options, without those of a screen.
    public struct Options: OptionSet, Sendable, Hashable {
        public let rawValue: UInt16

        public init(rawValue: UInt16) { self.rawValue = rawValue }

        public static let disableMemoryCacheReads = Options(rawValue: 1 << 0)
        public static let disableMemoryCacheWrites = Options(rawValue: 1 << 1)
        /// No data cache, whatever it lies on, is asked.
        public static let disableDiskCacheReads = Options(rawValue: 1 << 2)
        /// Nothing is put into a data cache: originals nor what is made of them (Nuke forgets the latter).
        public static let disableDiskCacheWrites = Options(rawValue: 1 << 3)
        public static let disableMemoryCache: Options = [.disableMemoryCacheReads, .disableMemoryCacheWrites]
        public static let disableDiskCache: Options = [.disableDiskCacheReads, .disableDiskCacheWrites]
        /// Asks the origin, and keeps what it says.
        public static let reloadIgnoringCachedData: Options = [.disableMemoryCacheReads, .disableDiskCacheReads]
        /// Asks no origin: what is in no cache is `.dataMissingInCache`.
        public static let returnCacheDataDontLoad = Options(rawValue: 1 << 4)
        /// A closure's bytes are fetched at once, without waiting for a place. Of closures only (in Nuke of URLs too):
        /// downloads always wait for one of `fetchConcurrency`.
        public static let skipDataLoadingQueue = Options(rawValue: 1 << 5)
    }

    /// A name for what is in `userInfo`.
    public struct UserInfoKey: Hashable, Sendable, ExpressibleByStringLiteral {
        public let rawValue: String

        public init(_ rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { self.init(value) }
    }

    /// A smaller picture, decoded as such: formats that can are read at a fraction of their size.
    public struct ThumbnailOptions: Sendable, Hashable {
        /// Pixels. The picture keeps its aspect.
        public var size: PixelSize
        public var contentMode: ImageProcessors.ContentMode

        /// The longer side is so many pixels at the most.
        public init(maxPixelSize: Int) {
            self.init(size: PixelSize(width: maxPixelSize, height: maxPixelSize), contentMode: .aspectFit)
        }

        /// - Parameter contentMode: whether the picture fits within the size or covers it; nothing is cut off.
        public init(size: PixelSize, contentMode: ImageProcessors.ContentMode = .aspectFill) {
            self.size = size
            self.contentMode = contentMode
        }

        /// Part of the keys.
        var identifier: String {
            "megaton/thumbnail?width=\(size.width),height=\(size.height),contentMode=\(contentMode.rawValue)"
        }
    }
}
