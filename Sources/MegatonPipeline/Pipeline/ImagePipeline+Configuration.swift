public import Foundation
public import Logging

extension ImagePipeline {
    /// What a pipeline is made of, and its limits.
    public struct Configuration: Sendable {
        // MARK: Dependencies

        /// Fetches `http:` and `https:`.
        public var dataLoader: any DataLoading
        /// When which origin may be asked; always by default.
        public var originGate: any OriginGating = OpenGate()
        /// Who makes what, and where those who share the work keep it: a cluster's lock, say. Nil, as by default, is nobody
        /// but the pipeline itself.
        public var flights: (any FlightCoordinating)? {
            didSet { coordinate() }
        }
        /// Where bytes are kept: memory, a disk, layers of them. Nil keeps none.
        ///
        /// With `flights` it stands before their shared cache, whichever is set first: see ``LayeredFlights``.
        public var dataCache: (any DataCaching)? {
            didSet { coordinate() }
        }
        /// Where there are `flights` too: how long what `dataCache` has is served before their shared cache is asked again.
        /// What is no longer fresh never is, nor what others tell that they have deleted.
        public var dataCacheTrust: Duration = .seconds(60) {
            didSet { coordinate() }
        }
        /// What `flights` and `dataCache` are together.
        private(set) var coordinator: any FlightCoordinating = LocalFlights()
        /// Where the beginnings of interrupted downloads are kept: where another worker finds them, if it is shared. `dataCache`
        /// if it is not set; nowhere if that is not set either.
        public var resumableDataCache: (any DataCaching)? {
            didSet { coordinate() }
        }
        /// Which local files may be read; none by default.
        public var fileAccess = FileAccess(roots: [])
        public var logger = Logger(label: "megaton.pipeline")
        /// Told what the refreshing of stale renditions of a source has cost: it happens behind the answers, so that no
        /// request's metrics have it.
        public var didRefresh: @Sendable (_ source: URL, _ cost: PipelineMetrics.Counts) -> Void = { _, _ in }

        /// How many requests a second each host is sent; no limit by default. A cluster's hosts are its gate's part.
        public var rateLimiter: RateLimiter?
        /// Decoded images, of this pipeline alone unless it is shared; nil, as by default, keeps none: renditions need none.
        public var imageCache: (any ImageCaching)?
        /// Which decoder takes which bytes; nil takes none. A registry's, with the limits and types of this configuration, if
        /// it is not set.
        public var makeImageDecoder: (@Sendable (ImageDecodingContext) -> (any ImageDecoding)?)?
        /// What all decoding and rendering together may take at a time; the process's by default.
        public var memoryBudget = MemoryBudget.process
        /// Which encoder makes the bytes of an image that is to be kept: JPEG or, with alpha, PNG.
        public var makeImageEncoder: @Sendable (ImageEncodingContext) -> any ImageEncoding = { _ in
            ImageEncoders.Default()
        }

        // MARK: Options

        /// Which URLs may be fetched.
        public var urlPolicy = URLPolicy()
        public var renderLimits = RenderLimits()
        /// What is decoded, by its content.
        public var types = AssetType.supported
        /// Bytes of a source.
        public var maximumDataSize = 64 * 1024 * 1024
        /// Bytes: larger bodies of downloads, and larger local files, are in temporary files without a name until they are
        /// rendered, and no longer in this process's memory. 4 MiB by default.
        public var maximumBodyInMemory = 4 * 1024 * 1024
        /// The directory of these files: `TMPDIR` if it is not set, else `/var/tmp` or `/tmp`. Where no file can be made
        /// there, bodies are held in memory, and the log says so once.
        public var temporaryDirectory: URL?
        /// Sources fetched at a time.
        public var fetchConcurrency = 32
        /// Sources rendered at a time: threads. The number of processors by default.
        public var renderConcurrency = max(1, ProcessInfo.processInfo.activeProcessorCount)
        /// What makes renditions. Images are decoded by libvips.
        public var renderEngine = RenderEngineChoice.auto
        /// Sources whose stale renditions are refreshed behind the answers at a time; what is beyond that is left to the
        /// next one who asks.
        public var refreshConcurrency = 16
        /// Whether what several want at the same time is done once.
        public var isTaskCoalescingEnabled = true
        /// Whether interrupted downloads go on where they were cut off (RFC 9110 section 14), where the origin says that it can.
        public var isResumableDataEnabled = true {
            didSet { coordinate() }
        }
        /// How often the beginning of a download that takes long is kept while it comes, in case that the process is killed.
        public var resumableDataInterval: Duration = .seconds(5)
        /// Whether tasks are sent previews while a download is under way. Off, as on a server hardly anybody looks on.
        public var isProgressiveDecodingEnabled = false
        /// From one preview of a download to the next, at the least.
        public var progressiveDecodingInterval: Duration = .milliseconds(500)
        /// Whether the last preview is in memory until the picture takes its place. No data cache ever has one.
        public var isStoringPreviewsInMemoryCache = true
        /// Which results are kept.
        public var dataCachePolicy = DataCachePolicy.storeAll {
            didSet { coordinate() }
        }
        /// How long a request waits for what somebody else is making.
        public var waitBudget: Duration = .seconds(30)
        /// How long a rendition made from a local file is kept; those of fetched sources follow the origin's headers.
        public var localLifetime: Duration = .seconds(30 * 24 * 3600)

        /// How long a response is fresh that names no lifetime and has no `Last-Modified`. With one it is fresh for a tenth
        /// of the time since then, and for at most seven times as long as this (RFC 9111 section 4.2.2). After that its
        /// validator is used. Zero asks the origin each time. That is decided when a response is stored or confirmed: an
        /// entry of before stays fresh for as long as it was given then.
        public var heuristicLifetime: Duration = .seconds(HTTPFreshness.defaultLifetime)

        public init(dataLoader: any DataLoading = DataLoader()) { self.dataLoader = dataLoader }

        /// Whether the beginnings of interrupted downloads are in `dataCache`.
        private var keepsPartialsInDataCache: Bool {
            isResumableDataEnabled && dataCachePolicy != .storeNothing && resumableDataCache == nil
        }

        private mutating func coordinate() {
            coordinator =
                switch (flights, dataCache) {
                case (nil, let cache): LocalFlights(cache: cache, keepsPartials: keepsPartialsInDataCache)
                case (let flights?, nil): flights
                case (let flights?, let cache?): LayeredFlights(cache, over: flights, trust: dataCacheTrust)
                }
        }
    }

    /// What is kept in the data caches: Nuke's four policies, and nothing. Originals of `file:` and `data:` sources never
    /// are.
    public enum DataCachePolicy: String, Sendable, CaseIterable {
        /// What was asked for: what is made of an original, or the original where nothing is.
        case automatic
        case storeOriginalData = "original"
        /// What is made of originals only.
        case storeEncodedImages = "encoded"
        /// Originals and what is made of them, so that a later request for another size finds the original.
        case storeAll = "all"
        case storeNothing = "none"

        var keepsOriginals: Bool { self == .storeAll || self == .storeOriginalData }
        var keepsRenditions: Bool { self == .storeAll || self == .automatic || self == .storeEncodedImages }
    }
}
