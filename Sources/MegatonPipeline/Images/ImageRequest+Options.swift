extension ImageRequest {
    /// Order in which waiting work starts. It does not affect running work.
    public typealias Priority = WorkPriority

    /// Cache options: those of Nuke, without the ones that concern a screen.
    public struct Options: OptionSet, Sendable, Hashable {
        public let rawValue: UInt16

        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Ignores images in the memory cache.
        public static let disableMemoryCacheReads = Options(rawValue: 1 << 0)
        /// Stores nothing in the memory cache.
        public static let disableMemoryCacheWrites = Options(rawValue: 1 << 1)
        /// Reads from no data cache, whether it is on a disk or not.
        public static let disableDiskCacheReads = Options(rawValue: 1 << 2)
        /// Writes nothing to a data cache, neither originals nor images made from them (in Nuke the latter are still
        /// written).
        public static let disableDiskCacheWrites = Options(rawValue: 1 << 3)
        /// Does not use the memory cache.
        public static let disableMemoryCache: Options = [.disableMemoryCacheReads, .disableMemoryCacheWrites]
        /// Does not use the data cache.
        public static let disableDiskCache: Options = [.disableDiskCacheReads, .disableDiskCacheWrites]
        /// Asks the origin, and stores its response.
        public static let reloadIgnoringCachedData: Options = [.disableMemoryCacheReads, .disableDiskCacheReads]
        /// Asks no origin: an image that is in no cache fails with `.dataMissingInCache`.
        public static let returnCacheDataDontLoad = Options(rawValue: 1 << 4)
        /// Calls a request's data closure at once, without waiting for a slot. It applies to closures only (in Nuke to
        /// URLs too): downloads always wait for one of the `fetchConcurrency` slots.
        public static let skipDataLoadingQueue = Options(rawValue: 1 << 5)
    }

    /// A key of `userInfo`.
    public struct UserInfoKey: Hashable, Sendable, ExpressibleByStringLiteral {
        public let rawValue: String

        /// Creates a key.
        public init(_ rawValue: String) { self.rawValue = rawValue }
        public init(stringLiteral value: String) { self.init(value) }
    }

    /// Decodes a smaller image. Formats that support it are decoded directly at a fraction of their size.
    public typealias ThumbnailOptions = MegatonRendering.ThumbnailOptions
}
