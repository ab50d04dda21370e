internal import Foundation
internal import FoundationNetworking
internal import Logging

// How an original is loaded. The functions stand in the order of the steps:
//
//   load ─┬─ read                     local files
//         ├─ loadFromCache            requests that must not ask the origin
//         └─ loadCoalesced            joins the load that is under way in this process, or starts one
//              └─ coordinate          the shared entry? this request's entry? the flight of another process?
//                   └─ fetch          closures and origins
//                        └─ exchange  revalidates the entry that is known
//                             └─ download ── send
//
// `fetch` and `exchange` are in OriginalLoader+Origins.swift, `download` and `send` in OriginalLoader+Downloads.swift.

/// Loads the bytes of sources from files, caches or origins. Concurrent loads of one original are coalesced.
final class OriginalLoader: Sendable {
    typealias Error = ImageError

    let configuration: ImagePipeline.Configuration
    private let files: ThreadPool
    let fetches: TaskQueue
    private let pool: WorkPool<OriginalLoadKey, Original>
    private let revalidator: BackgroundRevalidator
    /// Originals that a waiting request wants stored.
    let demand = OriginalDemand()
    /// Originals that other requests are known to need too.
    let reuse = OriginalDemand()
    /// Uploads of originals that their requests do not wait for.
    let uploads: BackgroundUploads
    /// Originals of which a waiting request wants previews.
    let previews = OriginalDemand()
    /// Loads that ended recently.
    let recentEnds = RecentEnds()

    /// Number of threads that read local files.
    private static let fileThreads = 4

    /// - Parameter revalidator: revalidates stale entries in the background after they were served.
    init(_ configuration: ImagePipeline.Configuration, _ revalidator: BackgroundRevalidator) {
        self.configuration = configuration
        self.revalidator = revalidator
        uploads = BackgroundUploads(limit: configuration.uploadConcurrency)
        files = ThreadPool(name: "megaton-file", count: Self.fileThreads)
        fetches = TaskQueue(maxConcurrentOperationCount: configuration.fetchConcurrency)
        pool = WorkPool(isCoalescingEnabled: configuration.isTaskCoalescingEnabled)
    }

    deinit { files.stop() }

    /// Number of callers that wait for a fetch.
    var subscriberCount: Int { pool.subscriberCount }

    /// A load under way. Its cost is recorded for the request that started it.
    struct Load: Sendable {
        let source: Source
        let options: OriginalRequestOptions
        let metrics: PipelineMetrics
        var lookup: OriginalLookup?
        let context: WorkContext<Original>
        /// Result of the lookup at the source's `sharedKey`.
        var shared: Shared?
        /// Generation of the entry found at the source's own key, if that is the shared key.
        var generation: String?
    }

    // MARK: - Steps, in their order

    /// Loads the bytes of a source.
    ///
    /// - Parameters:
    ///   - lookup: result of a recent cache lookup.
    ///   - parent: work item that needs the bytes. It receives the progress, and its priority replaces that of the
    ///     options.
    ///   - onPartial: called with unfinished originals while a request wants previews of them; never without a parent.
    func load(
        _ source: Source,
        _ options: OriginalRequestOptions,
        _ metrics: PipelineMetrics,
        lookup: OriginalLookup? = nil,
        for parent: (any WorkParent)? = nil,
        onPartial: @escaping @Sendable (Original) -> Void = { _ in }
    ) async throws(Error) -> Original {
        do throws(Error) {
            guard options.allowsNetwork else { return try await loadFromCache(source, options, metrics, lookup) }
            switch source.location {
            case .file(let file): return try await read(file, metrics)
            case .inline(let data):
                guard data.count <= limit else {
                    throw Error(
                        .dataTooLarge,
                        "\(source) has \(data.count) bytes; the limit is \(limit) "
                            + "(ImagePipeline.Configuration.maximumDataSize)."
                    )
                }
                return Original(data: data, metadata: localMetadata)
            case .closure, .remote:
                if source.cachePolicy.isExclusive, let answer = await storedAnswer(source, options, metrics) {
                    return answer
                }
                return try await loadCoalesced(source, options, metrics, lookup, parent, onPartial)
            }
        } catch {
            // Custom loaders know nothing of stages, and limits know nothing of URLs: both are added here.
            throw error.about(source.request, at: .load)
        }
    }

    private func read(_ file: FileAccess.File, _ metrics: PipelineMetrics) async throws(Error) -> Original {
        let access = configuration.fileAccess
        let data: Data = try await metrics.timing(\.fetching) { () async throws(Error) -> Data in
            try await metrics.inSpan(.fetch) { () async throws(Error) -> Data in
                try await onFileThread { [limit, spool] () throws(Error) in try access.read(file, limit: limit, spool) }
            } facts: { (result: Result<Data, Error>) in
                SpanFacts(result) { $0.bytes = $1.count }
            }
        }
        metrics.update { $0.bytesIn += data.count }
        return Original(data: data, metadata: localMetadata)
    }

    /// The original from a cache, for a request that must not ask the origin.
    private func loadFromCache(
        _ source: Source,
        _ options: OriginalRequestOptions,
        _ metrics: PipelineMetrics,
        _ lookup: OriginalLookup?
    ) async throws(Error) -> Original {
        if options.readsCaches, source.isCacheable {
            let own = await entry(source, lookup)
            for case let entry? in [await shared(source)?.entry, own]
            where entry.metadata.matches(request: source.sentFields)
                && source.cachePolicy.accepts(entry, at: Date())
            {
                return hit(entry, metrics)
            }
        }
        throw Error(
            .dataMissingInCache,
            "\(source) is in no cache, and the request forbids asking the origin.",
            stage: .load
        )
    }

    private func entry(_ source: Source, _ lookup: OriginalLookup?) async -> CachedData? {
        if let lookup, !recentEnds.hasEnded(source.key, since: lookup.mark) { return lookup.entry }
        return await source.flights.lookUp([source.key]).first ?? nil
    }

    /// Joins the load of the same original that is under way in this process, or starts one.
    private func loadCoalesced(
        _ source: Source,
        _ options: OriginalRequestOptions,
        _ metrics: PipelineMetrics,
        _ lookup: OriginalLookup?,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async throws(Error) -> Original {
        var key = OriginalLoadKey(source)
        let claim = demand.claim(key, if: options.storesOriginal)
        defer { claim?.end() }
        let reuseClaim = reuse.claim(key, if: source.request.expectsReuse)
        defer { reuseClaim?.end() }
        key.confirming = options.confirming.map { [$0.etag, $0.lastModified, $0.responder] }
        var options = options
        var outcome = await join(key, source, options, metrics, lookup, parent, onPartial)
        // A load that was joined may have accepted what this request does not. Each reason counts once.
        while case .success(let found) = outcome.result {
            if !options.readsCaches, found.isFromCache, !key.isReload {
                // It had started with a cache lookup and found an entry. This request bypasses caches.
                key.isReload = true
            } else if found.wholeLength != nil, options.sufficientScans?.areIn(found.data) != true, !key.isWhole {
                // It has ended with the bytes that another caller needs.
                key.isWhole = true
                options.sufficientScans = nil
            } else if !options.wantsResponse, outcome.wasCoalesced, found.isStale, !key.isRefresh {
                // It accepted a stale entry, which this caller may have to revalidate.
                key.isRefresh = true
            } else {
                break
            }
            outcome = await join(key, source, options, metrics, nil, parent, onPartial)
        }
        let original = try outcome.result.get()
        if outcome.wasCoalesced {
            metrics.update {
                $0.waits += 1
                $0.originalHits += 1
            }
        }
        if options.storesOriginal { original.store() }
        return original
    }

    /// Starts a load, unless one with the same key is under way, and waits for its outcome.
    private func join(
        _ key: OriginalLoadKey,
        _ source: Source,
        _ options: OriginalRequestOptions,
        _ metrics: PipelineMetrics,
        _ lookup: OriginalLookup?,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async -> WorkOutcome<Original> {
        let job = WorkJob<Original>.running { [self] context throws(Error) in
            defer { recentEnds.note(source.key) }
            let load = Load(source: source, options: options, metrics: metrics, lookup: lookup, context: context)
            return try await metrics.notingWaits(for: .load) { () async throws(Error) in
                try await options.readsCaches ? coordinate(load).get() : fetch(nil, load).get()
            }
        }
        guard let parent else { return await pool.outcome(for: key, priority: options.priority, job: job) }
        return await parent.outcome(of: pool, key: key, job: job, onPartial: onPartial)
    }

    /// Answers from the shared entry or the original's own; else waits for the process that fetches it, or asks the
    /// origin as the leader.
    private func coordinate(_ load: Load) async -> Result<Original, Error> {
        var load = load
        if !load.source.cachePolicy.allowsStorage { return await loadWithoutStoring(load) }
        let (source, metrics, sent) = (load.source, load.metrics, load.source.sentFields)
        let deadline = ContinuousClock.now + configuration.waitBudget
        var awaited: [SingleFlight.Waiter] = []
        for _ in 0..<ImagePipeline.roundLimit(within: configuration.waitBudget) {
            load.shared = await shared(source)
            if let answer = answer(load.shared, load) { return .success(answer) }
            let decision = await decision(load, after: awaited)
            // An entry that this request waited for is newer than the request, so its cache directives do not apply,
            // unless the leader of the flight asked the origin too early for a refresh.
            let isSteered = awaited.isEmpty || !source.request.isNewEnough(decision?.entry)
            if isSteered, let answer = await steered(decision, load) { return answer }
            switch decision {
            // The entry varies by header fields that this request sends with other values: it does not match this
            // request, nor the next one like it.
            case .hit(let cached) where !cached.metadata.matches(request: sent),
                .stale(let cached, nil) where !cached.metadata.matches(request: sent):
                // The other variants are still valid: the new entry takes over the generation.
                if source.sharedKey == nil { load.generation = cached.metadata.generation }
                await source.flights.discard(source.key)
                load.lookup = nil
            case .hit(let cached): return .success(hit(cached, metrics))
            case .stale(let cached, nil): return .success(stale(cached, metrics))
            case .stale(let cached, let leader?) where load.options.wantsResponse && isAllowed(cached, load):
                await source.flights.fail(
                    [leader],
                    error: Error(.cancelled, "The entry is revalidated in the background.")
                )
                refresh(load)
                return .success(stale(cached, metrics))
            // A caller that needs an image may be revalidating renditions of the stale entry, so the origin is asked.
            case .stale(_, let leader?), .lead(let leader):
                return await fetch(leader, refusing: load.shared?.entry ?? load.options.confirming?.withoutBytes, load)
            case .failed(let error):
                let isAnswer = error.matches(request: sent, under: configuration)
                return isAnswer ? .failure(error) : await fetch(nil, load)
            case .wait(let flight):
                guard ContinuousClock.now < deadline else {
                    await source.flights.abandon(flight)
                    return .failure(
                        Error(.waitTimedOut, "Another request took too long to fetch \(source); try later.")
                    )
                }
                metrics.update { $0.waits += 1 }
                await source.flights.wait(for: flight)
                if Task.isCancelled { return .failure(Error(.cancelled, "The request for \(source) was cancelled.")) }
                awaited = [flight]
            case nil:
                return .failure(Error(.waitTimedOut, "The single-flight coordinator made no decision about \(source)."))
            }
        }
        return .failure(
            Error(.waitTimedOut, "Other requests fetched \(source) again and again without a usable entry; try later.")
        )
    }

    /// The decision from the caller's cache lookup, unless a load of the same original has ended since; else the
    /// coordinator's decision.
    private func decision(_ load: Load, after awaited: [SingleFlight.Waiter]) async -> SingleFlight.Decision? {
        let source = load.source
        if awaited.isEmpty, let lookup = load.lookup, let flights = source.flights as? LocalSingleFlight,
            !recentEnds.hasEnded(source.key, since: lookup.mark)
        {
            return flights.decision(source.key, lookup.entry, hasPartial: lookup.hasPartial)
        }
        return await source.flights.begin(
            [source.key],
            after: awaited,
            maximumFailureAge: source.request.failureAge
        ).first
    }

    private func isAllowed(_ cached: CachedData, _ load: Load) -> Bool {
        cached.metadata.matches(request: load.source.sentFields)
            && !load.source.cachePolicy.forbids(cached, at: Date())
    }

    /// Revalidates a stale entry in the background after it was served (RFC 5861 section 3).
    func refresh(_ load: Load) {
        let source = load.source
        var options = load.options
        options.wantsResponse = false
        // The entry is in the cache already, so only the request's option decides.
        options.storesOriginal = !source.request.options.contains(.disableDiskCacheWrites)
        let start = revalidator.start([source.key]) { [self, options, spans = load.metrics.spans] _ in
            let metrics = PipelineMetrics(spans: spans)
            do throws(Error) {
                try await self.load(source, options, metrics).isStored()
            } catch {
                configuration.logger.debug("a stale original was not revalidated", metadata: ["error": "\(error)"])
            }
            if let url = source.request.url { configuration.didRefresh(url, metrics.counts) }
        }
        load.metrics.update { $0.dropped += start.rejected.count }
    }

    func stale(_ cached: CachedData, _ metrics: PipelineMetrics) -> Original {
        metrics.update {
            $0.originalHits += 1
            $0.staleHits += 1
            $0.addHit(in: cached.layer)
        }
        return Original(cached, found: configuration.date())
    }

    // MARK: - Means

    var localMetadata: CachedData.Metadata { CachedData.Metadata(lifetime: configuration.localLifetime.inSeconds) }
    var limit: Int { configuration.maximumDataSize }
    /// Admits copies of large bodies on their way to a cache, within the memory budget.
    var copies: CopyGate { CopyGate(configuration.memoryBudget, threshold: configuration.maximumBodyInMemory) }
    /// Storage for bodies during a download: memory up to the threshold, then a temporary file.
    var spool: BodySpool {
        BodySpool(
            threshold: max(0, configuration.maximumBodyInMemory),
            directory: configuration.temporaryDirectory?.path(percentEncoded: false),
            memory: .process,
            logger: configuration.logger
        )
    }

    func onFileThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws(Error) -> Value
    ) async throws(Error) -> Value {
        do {
            return try await files.run { try work() }
        } catch let error as Error {
            throw error
        } catch {
            throw Error(.cancelled, "The request was cancelled while it waited for a file thread.")
        }
    }
}
