public import Foundation
public import Logging

extension ImagePipeline {
    /// Components and limits of a pipeline.
    public struct Configuration: Sendable {
        // MARK: Dependencies

        /// Loader for `http:` and `https:` URLs.
        public var dataLoader: any DataLoading {
            didSet { coordinate() }
        }
        /// Host limits: grants a permit for each request to an origin; unlimited by default.
        package var fetchLimiter: any FetchLimiting = UnlimitedFetches()
        /// Single-flight coordination between processes, such as a cluster's lock, with the cache in which they share
        /// results. Nil, the default, coordinates within this pipeline only.
        package var flights: (any SingleFlightCoordinating)? {
            didSet { coordinate() }
        }
        /// Cache of bytes: memory, a disk, or layers of them. Nil stores none.
        ///
        /// In front of a cache that processes share, it is a near cache: deletions in the shared cache reach it, and
        /// `nearCacheTTL` bounds the time for which it is trusted.
        public var dataCache: (any DataCaching)? {
            didSet { coordinate() }
        }
        /// Time to live of entries in `dataCache` before a cache that processes share is asked again; it has no effect
        /// without one. Entries past their lifetime, and entries that another process is known to have deleted, are
        /// never served unasked.
        public var nearCacheTTL: Duration = .seconds(60) {
            didSet { coordinate() }
        }
        /// Combination of `flights` and `dataCache`.
        private(set) var coordinator: any SingleFlightCoordinating = LocalSingleFlight()
        /// Cache for the beginnings of interrupted downloads. If it is shared, another worker can resume them.
        /// `dataCache` by default; without either, none are stored.
        public var resumableDataCache: (any DataCaching)? {
            didSet { coordinate() }
        }
        /// Local files that may be read; none by default.
        public var fileAccess = FileAccess(roots: [])
        /// Logger of the pipeline.
        public var logger = Logger(label: "megaton.pipeline")
        /// Called with the cost of each background revalidation of a source, which no request's metrics include.
        package var didRefresh: @Sendable (_ source: URL, _ cost: PipelineMetrics.Counts) -> Void = { _, _ in }
        /// Returns the time, for the part of a lifetime that passes between a response and its storage.
        var date: @Sendable () -> Date = { Date() }

        /// Requests per second to each host; unlimited by default. Workers of a cluster share limits of their own
        /// instead.
        public var rateLimiter: RateLimiter?
        /// Cache of decoded images, used by this pipeline alone unless it is shared. Nil, the default, stores none:
        /// renditions do not need it.
        public var imageCache: (any ImageCaching)?
        /// Selects the decoder for given bytes; returns nil if none accepts them. By default a registry with the limits
        /// and types of this configuration.
        public var makeImageDecoder: (@Sendable (ImageDecodingContext) -> (any ImageDecoding)?)?
        /// Memory that all decoding and rendering may use at a time; the budget of the process by default.
        public var memoryBudget = MemoryBudget.process
        /// Selects the encoder for an image that is stored in a data cache; by default JPEG or, with alpha, PNG.
        public var makeImageEncoder: @Sendable (ImageEncodingContext) -> any ImageEncoding = { _ in
            ImageEncoders.Default()
        }

        // MARK: Options

        /// Rules for URLs that may be fetched.
        public var urlPolicy = URLPolicy() {
            didSet { coordinate() }
        }
        /// Limits of the images that are decoded, and of their time.
        public var renderLimits = RenderLimits()
        /// Formats that are decoded, recognized by content.
        public var types = AssetType.supported
        /// Images that watermarks of renditions may name; none by default.
        public var watermarks: Watermarks?
        /// Maximum size of a source in bytes.
        public var maximumDataSize = defaultMaximumDataSize
        package static let defaultMaximumDataSize = 64 * 1024 * 1024
        /// Maximum size in bytes of a body in memory, 4 MiB by default. Larger downloads and local files are in unnamed
        /// temporary files until they are rendered.
        public var maximumBodyInMemory = 4 * 1024 * 1024
        /// Directory of these files; by default `TMPDIR`, else `/var/tmp` or `/tmp`. If no file can be created there,
        /// bodies are held in memory, which is logged once.
        public var temporaryDirectory: URL?
        /// Maximum number of sources fetched at a time.
        public var fetchConcurrency = 32
        /// Maximum number of sources rendered at a time, and number of render threads. The number of processors by
        /// default.
        public var renderConcurrency = max(1, ProcessInfo.processInfo.activeProcessorCount)
        /// Engine that makes renditions. Image tasks decode with libvips in any case.
        public var renderEngine = RenderEngineChoice.auto
        /// Maximum number of background tasks, which revalidate stale entries and store images after the response was
        /// returned. Work beyond that is dropped and left to a later request.
        public var refreshConcurrency = 16
        /// Maximum number of originals that are being stored in the cache of `flights` after their requests were
        /// answered. Beyond it, or without single flight, a request waits until its original is stored.
        package var uploadConcurrency = 16
        /// Whether concurrent requests for the same work share it.
        public var isTaskCoalescingEnabled = true
        /// Whether interrupted downloads are resumed (RFC 9110 section 14), if the origin supports it.
        public var isResumableDataEnabled = true {
            didSet { coordinate() }
        }
        /// Interval at which the beginning of a long download is stored while it is under way, in case the process is
        /// killed.
        public var resumableDataInterval: Duration = .seconds(5)
        /// Whether tasks receive previews during a download. Off by default, as a server rarely displays them.
        public var isProgressiveDecodingEnabled = false
        /// Minimum time between two previews of a download.
        public var progressiveDecodingInterval: Duration = .milliseconds(500)
        /// Whether the last preview is in memory until the image replaces it. Data caches never store previews.
        public var isStoringPreviewsInMemoryCache = true
        /// Results that are stored in the data caches.
        public var dataCachePolicy = DataCachePolicy.storeAll {
            didSet { coordinate() }
        }
        /// Maximum time that a request waits for another request's work.
        public var waitBudget: Duration = .seconds(30)
        /// Lifetime of cache entries that have no header fields of an origin: of local files, `data:` URLs, closures,
        /// and images stored directly. Results of fetched sources follow the origin's header fields.
        public var localLifetime: Duration = .seconds(30 * 24 * 3600)

        /// Lifetime of a response that states none and has no `Last-Modified`. With `Last-Modified`, it is fresh for a
        /// tenth of the time since then, at most seven times this value (RFC 9111 section 4.2.2). Afterwards it is
        /// revalidated. Zero asks the origin each time.
        ///
        /// The lifetime is decided when a response is stored or confirmed: a change does not affect existing entries.
        public var heuristicLifetime: Duration = .seconds(HTTPFreshness.defaultLifetime)

        /// Creates the default configuration with a loader.
        public init(dataLoader: any DataLoading = DataLoader()) { self.dataLoader = dataLoader }

        /// Whether the beginnings of interrupted downloads are stored in `dataCache`.
        private var storesPartialsInDataCache: Bool {
            isResumableDataEnabled && dataCachePolicy != .storeNothing && resumableDataCache == nil
        }

        private mutating func coordinate() {
            coordinator =
                switch (flights, dataCache) {
                case (nil, let cache): localFlights(cache, storesPartials: storesPartialsInDataCache)
                case (let flights?, nil): checked(flights)
                case (let flights?, let cache?): checked(LayeredSingleFlight(cache, over: flights, ttl: nearCacheTTL))
                }
        }

        /// Coordinator of this pipeline alone, with a cache.
        func localFlights(_ cache: (any DataCaching)?, storesPartials: Bool = false) -> LocalSingleFlight {
            LocalSingleFlight(cache: cache, storesPartials: storesPartials, origins: origins)
        }

        /// Origins from which the caches may have their entries.
        var origins: EntryOrigins {
            let loader = (dataLoader as? any LoadLimitDeclaring)?.loadLimits
            return EntryOrigins(addresses: urlPolicy.addresses, endpoint: loader?.s3 ?? S3Endpoint())
        }

        private func checked(_ flights: any SingleFlightCoordinating) -> any SingleFlightCoordinating {
            if urlPolicy.addresses == nil && !urlPolicy.schemes.contains("s3") { return flights }
            return OriginCheckedFlights(flights, origins)
        }
    }

    /// Results that are stored in the data caches: Nuke's four policies, one for shared caches, and none. Originals of
    /// `file:` and `data:` sources are never stored.
    public enum DataCachePolicy: String, Sendable, CaseIterable {
        /// The requested result: the processed image, or the original if it is unchanged.
        case automatic
        case storeOriginalData = "original"
        /// Images made from originals only.
        case storeEncodedImages = "encoded"
        /// Originals and the images made from them, so that a later request for another size finds the original.
        case storeAll = "all"
        /// Images made from originals, and in a cache that several processes share the originals that are needed again:
        /// another request waits for the original, is known to follow, or came before. Other caches store as with
        /// `storeAll`.
        case storeReused = "reused"
        case storeNothing = "none"

        var storesOriginals: Bool { [.storeAll, .storeReused, .storeOriginalData].contains(self) }
        package var storesRenditions: Bool {
            [.storeAll, .storeReused, .automatic, .storeEncodedImages].contains(self)
        }
    }
}
