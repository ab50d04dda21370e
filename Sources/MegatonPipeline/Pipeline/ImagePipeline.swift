import Synchronization

/// Fetches a source once, decodes it once, and makes all requested renditions of it. Concurrent requests for the same
/// work are coalesced.
///
/// ```
/// renditions(_:for:) ──► coalesce in the process ──► begin: hit | stale | wait | lead
///                                                              │ later      │
///                           original ◄── coalesce ── begin ◄───┴────────────┤
///                              │ fetch slots                                │
///                              └──► render slots: one decode ───────────────┴──► finish: store, wake the waiters
/// ```
public final class ImagePipeline: Sendable {
    /// Nuke's name of ``ImageError``.
    public typealias Error = ImageError
    /// Nuke's name of ``ImagePreviewPolicy``.
    public typealias PreviewPolicy = ImagePreviewPolicy

    /// The options of the pipeline.
    public let configuration: Configuration
    let delegate: (any Delegate)?
    let renderer: Renderer
    let originals: OriginalLoader
    private let producer: RenditionProducer
    let revalidator: BackgroundRevalidator
    /// Work items for the steps of image loads, by their result.
    let images: WorkPool<ImageLoadKey, ImageResponse>
    /// Slots for render threads, assigned by priority.
    let renders: RenderQueue
    let tasks = ImageTasks()
    let makeImageDecoder: @Sendable (ImageDecodingContext) -> (any ImageDecoding)?
    let groups: RenditionGroups
    let fileRevisions = FileRevisions()

    /// Maximum number of rounds for a request. Each round settles a key or waits for another flight, which takes a
    /// coordinator about two seconds if nothing happens. So a request that is still open after this many will not be
    /// settled.
    static func roundLimit(within waitBudget: Duration) -> Int {
        Int(min(max(64, waitBudget.inSeconds), 86_400))
    }

    /// Creates a pipeline. If libvips cannot be loaded, this succeeds, and each request that needs it fails with that
    /// reason.
    public init(configuration: Configuration = Configuration(), delegate: (any Delegate)? = nil) {
        configuration.logSecurityRelaxations()
        self.configuration = configuration
        self.delegate = delegate
        let registry = ImageDecoderRegistry(limits: configuration.renderLimits, types: configuration.types)
        makeImageDecoder = configuration.makeImageDecoder ?? { registry.decoder(for: $0) }
        images = WorkPool(isCoalescingEnabled: configuration.isTaskCoalescingEnabled)
        groups = RenditionGroups(isCoalescingEnabled: configuration.isTaskCoalescingEnabled)
        renders = RenderQueue(configuration.memoryBudget, width: max(1, configuration.renderConcurrency))
        renderer = Renderer(
            engine: configuration.renderEngine.engine,
            limits: configuration.renderLimits,
            types: configuration.types,
            threads: ThreadPool(
                name: "megaton-render",
                count: configuration.renderConcurrency,
                stackSize: 8 << 20,
                onThreadExit: VipsRuntime.endThread
            ),
            budget: configuration.memoryBudget
        )
        revalidator = BackgroundRevalidator(limit: configuration.refreshConcurrency, logger: configuration.logger)
        originals = OriginalLoader(configuration, revalidator)
        producer = RenditionProducer(configuration, originals, renderer, renders, revalidator)
    }

    /// Creates a pipeline whose configuration is changed in a closure: `ImagePipeline { $0.dataLoader = … }`.
    public convenience init(delegate: (any Delegate)? = nil, _ configure: (inout Configuration) -> Void) {
        var configuration = Configuration()
        configure(&configuration)
        self.init(configuration: configuration, delegate: delegate)
    }

    deinit { revalidator.stop() }

    /// Waits for work of requests that were answered already: originals that are being stored, and stale entries that
    /// are being revalidated. No more of the latter begin.
    ///
    /// - Parameter limit: how long to wait; cancellation ends the wait too.
    /// - Returns: the number of entries that are not stored yet.
    package func finishBackgroundWork(within limit: Duration) async -> Int {
        let deadline = ContinuousClock.now + limit
        let uploads = await originals.uploads.finish(within: limit)
        return uploads + (await revalidator.finish(within: max(.zero, ContinuousClock.now.duration(to: deadline))))
    }

    /// Running time of the longest render under way; nil if there is none.
    package var longestRunningRender: Duration? { renderer.longestRunning }

    /// Fails renders that have been running for longer than this time, which is far beyond their limit.
    package func abandonRenders(runningLongerThan limit: Duration) { renderer.abandon(runningLongerThan: limit) }

    /// Returns the renditions of a source, from the caches or newly made.
    ///
    /// Renditions are made from the original. The request determines the source, its cache key, the priority and the
    /// use of caches. Of the delegate, the data loader, the data cache, `willLoadData`, and for the original `cacheKey`
    /// and `willCache` apply. Not used are the request's processors and thumbnail, and decoders, encoders and memory
    /// caches of the configuration and the delegate.
    ///
    /// - Returns: one response for each rendition, in the same order.
    /// - Throws: the first error. All renditions are made in one decode, so none is returned if one fails.
    ///   `.invalidURL` for an image that a closure makes, which has no original. `.watermarkMissing` for a watermark
    ///   that is not in the configuration.
    public func renditions(
        _ renditions: [Rendition],
        for request: ImageRequest,
        metrics: PipelineMetrics = PipelineMetrics()
    ) async throws(Error) -> [RenditionResponse] {
        try await whileOpen(for: request) { [self] () async throws(Error) in
            try await make(renditions, of: source(of: named(request)), metrics)
        }
    }

    /// A group that is opened anew after its first request was cancelled may lack keys; see `RenditionGroups.outcome`.
    private static let maximumGroupChanges = 3

    private func make(
        _ requested: [Rendition],
        of source: Source,
        _ metrics: PipelineMetrics
    ) async throws(Error) -> [RenditionResponse] {
        // Before the keys, which contain the digests of watermarks.
        let renditions = try requested.map { rendition throws(Error) in
            try Watermarks.resolve(rendition, in: configuration.watermarks)
        }
        let keys = renditions.map { source.key.rendition($0, by: configuration.renderEngine) }
        let wanted = Dictionary(zip(keys, renditions), uniquingKeysWith: { first, _ in first })
        var found: [CacheKey: RenditionResponse] = [:]
        for _ in 0..<Self.maximumGroupChanges {
            let missing = keys.uniqued().filter { found[$0] == nil }
            if missing.isEmpty { break }
            for (results, wasCoalesced) in await produce(missing, wanted, source, metrics) {
                for (key, outcome) in try results.get() where wanted[key] != nil {
                    let response = try outcome.get()
                    if wasCoalesced {
                        metrics.update {
                            $0.waits += 1
                            $0.cacheHits += 1
                        }
                    }
                    found[key] = wasCoalesced ? response.fromCache() : response
                }
            }
        }
        return try keys.map { key throws(Error) in
            guard let response = found[key] else { throw Error(.cancelled, "The request for \(source) was cancelled.") }
            var rendition = wanted[key] ?? response.rendition
            rendition.watermark?.overlay = nil
            return response.named(rendition, key)
        }
    }

    private func produce(
        _ keys: [CacheKey],
        _ wanted: [CacheKey: Rendition],
        _ source: Source,
        _ metrics: PipelineMetrics
    ) async -> [(Result<RenditionGroups.Results, Error>, wasCoalesced: Bool)] {
        let options = RenditionRequestOptions(source.request)
        return await withTaskGroup(of: WorkOutcome<RenditionGroups.Results>.self) { tasks in
            for part in groups.parts(keys, options) {
                tasks.addTask { [groups, producer] in
                    await groups.outcome(of: part, options, priority: source.request.priority) { keys, context in
                        await producer.produce(
                            keys.compactMap { key in wanted[key].map { (key, $0) } },
                            RenditionProducer.Request(
                                source: source,
                                options: options,
                                metrics: metrics,
                                context: context
                            )
                        )
                    }
                }
            }
            return await tasks.reduce(into: []) { $0.append(($1.result, $1.wasCoalesced)) }
        }
    }
}

extension ImagePipeline {
    /// Fetches a source into the cache without decoding it, as Nuke's prefetching does. A request whose processed image
    /// is in a data cache needs none.
    ///
    /// - Throws: the error of the fetch.
    public func prefetch(_ request: ImageRequest, metrics: PipelineMetrics = PipelineMetrics()) async throws(Error) {
        try await whileOpen(for: request) { [self] () async throws(Error) in
            let request = named(request)
            var lookup: OriginalLookup?
            if request.changesOriginal {
                let found = await lookUp(request, steps: false)
                if found.entries[dataCacheKey(for: request)] != nil { return }
                lookup = found.original
            }
            let original = try await original(for: request, metrics, nil, lookup)
            await original.isStored()
        }
    }
}

extension ImagePipeline {
    private static let current = Mutex(ImagePipeline())

    /// Pipeline for programs that need only one, as in Nuke. It has the default configuration. Setting another pipeline
    /// affects later reads only.
    public static var shared: ImagePipeline {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }
}
