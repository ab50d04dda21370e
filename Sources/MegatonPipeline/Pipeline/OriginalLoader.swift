internal import Foundation
internal import FoundationNetworking
internal import Logging

/// Has the bytes of sources: from files, from the caches or from their origins, each original once at a time.
final class OriginalLoader: Sendable {
    typealias Error = ImagePipeline.Error

    let configuration: ImagePipeline.Configuration
    private let files: ThreadPool
    let fetches: TaskQueue
    private let pool: WorkPool<OriginalLoadKey, Original>
    private let refreshes: Refreshes
    /// What is to be kept.
    let demand = OriginalDemand()
    /// What previews are wanted of.
    let previews = OriginalDemand()
    /// Loads that ended a short time ago.
    let ends = RecentEnds()

    /// Threads that read local files.
    private static let fileThreads = 4

    /// - Parameter refreshes: what stale entries are refreshed by that were served.
    init(_ configuration: ImagePipeline.Configuration, _ refreshes: Refreshes) {
        self.configuration = configuration
        self.refreshes = refreshes
        files = ThreadPool(name: "megaton-file", count: Self.fileThreads)
        fetches = TaskQueue(maxConcurrentOperationCount: configuration.fetchConcurrency)
        pool = WorkPool(isCoalescingEnabled: configuration.isTaskCoalescingEnabled)
    }

    deinit { files.stop() }

    /// Who waits for a fetch.
    var subscriberCount: Int { pool.subscriberCount }

    /// The bytes of a source.
    ///
    /// - Parameters:
    ///   - look: at the caches, a moment ago.
    ///   - parent: work that needs them: it is told the progress, and gives its priority in place of the wish's.
    ///   - onPartial: is told of unfinished ones while somebody wants previews of them, and there is a parent.
    func original(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        look: OriginalLook? = nil,
        for parent: (any WorkParent)? = nil,
        onPartial: @escaping @Sendable (Original) -> Void = { _ in }
    ) async throws(Error) -> Original {
        do throws(Error) {
            return try await found(source, wish, metrics, look, parent, onPartial)
        } catch {
            // Whoever has failed: a loader of somebody else knows nothing of stages, and a limit nothing of URLs.
            throw error.about(source.request, at: .load)
        }
    }

    private func found(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ look: OriginalLook?,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async throws(Error) -> Original {
        guard wish.asksOrigin else { return try await kept(source, wish, metrics, look) }
        switch source.place {
        case .file(let file):
            let access = configuration.fileAccess
            let data: Data = try await metrics.timing(\.fetching) { () async throws(Error) in
                try await onFileThread { [limit, spool] () throws(Error) in
                    try access.read(file, limit: limit, spool)
                }
            }
            metrics.update { $0.bytesIn += data.count }
            return Original(data: data, metadata: localMetadata)
        case .inline(let data): return Original(data: data, metadata: localMetadata)
        case .closure, .remote:
            if source.cachePolicy.isExclusive, let stored = await storedAnswer(source, wish, metrics) { return stored }
            return try await shared(source, wish, metrics, look, parent, onPartial)
        }
    }

    var localMetadata: CachedData.Metadata { CachedData.Metadata(lifetime: configuration.localLifetime.inSeconds) }
    var limit: Int { configuration.maximumDataSize }
    /// Admits copies of large bodies on their way to a cache.
    var copies: CopyGate { CopyGate(configuration.memoryBudget, threshold: configuration.maximumBodyInMemory) }
    /// Where bodies are while they come.
    var spool: BodySpool {
        BodySpool(
            threshold: max(0, configuration.maximumBodyInMemory),
            directory: configuration.temporaryDirectory?.path(percentEncoded: false),
            memory: .process,
            logger: configuration.logger
        )
    }

    /// What a cache has.
    private func kept(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ look: OriginalLook?
    ) async throws(Error) -> Original {
        if wish.readsCaches, source.isKept {
            let own = await entry(source, look)
            for case let entry? in [await shared(source)?.entry, own]
            where entry.metadata.matches(request: source.sentFields)
                && source.cachePolicy.isContent(with: entry, at: Date())
            {
                return hit(entry, metrics)
            }
        }
        throw Error(.dataMissingInCache, "\(source) is in no cache, and the origin is not to be asked.", stage: .load)
    }

    private func entry(_ source: Source, _ look: OriginalLook?) async -> CachedData? {
        if let look, !ends.hasEnded(source.key, since: look.mark) { return look.entry }
        return await source.flights.lookUp([source.key]).first ?? nil
    }

    // MARK: - Flights

    private func shared(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ look: OriginalLook?,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async throws(Error) -> Original {
        var key = OriginalLoadKey(source)
        let claim = demand.claim(key, if: wish.keeps)
        defer { claim?.end() }
        var outcome = await outcome(key, source, wish, metrics, look, parent, onPartial)
        if !wish.readsCaches, case .success(let found) = outcome.result, found.isFromCache {
            // What was joined had only been looking yet, and has found something.
            key.isReload = true
            outcome = await self.outcome(key, source, wish, metrics, nil, parent, onPartial)
        } else if !wish.wantsAnswer, outcome.wasCoalesced, case .success(let found) = outcome.result, found.isStale {
            // The flight that was joined accepted a stale entry, which this caller may be here to refresh.
            key.isRefresh = true
            outcome = await self.outcome(key, source, wish, metrics, nil, parent, onPartial)
        }
        let original = try outcome.result.get()
        if outcome.wasCoalesced {
            metrics.update {
                $0.waits += 1
                $0.originalHits += 1
            }
        }
        if wish.keeps { original.keep() }
        return original
    }

    private func outcome(
        _ key: OriginalLoadKey,
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ look: OriginalLook?,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async -> WorkOutcome<Original> {
        let job = WorkJob<Original>.running { [self] context throws(Error) in
            defer { ends.note(source.key) }
            let load = Load(source: source, wish: wish, metrics: metrics, look: look, context: context)
            return try await metrics.notingWaits(for: .load) { () async throws(Error) in
                try await wish.readsCaches ? lead(load).get() : fetch(nil, load).get()
            }
        }
        guard let parent else { return await pool.outcome(for: key, priority: wish.priority, job: job) }
        return await parent.outcome(of: pool, key: key, job: job, onPartial: onPartial)
    }

    /// A fetch under way, on the account of whoever started it.
    struct Load: Sendable {
        let source: Source
        let wish: OriginalWish
        let metrics: PipelineMetrics
        let look: OriginalLook?
        let context: WorkContext<Original>
        /// The entry that was found beneath the source's `sharedKey`.
        var shared: Shared?
        /// If the source's own key is what others share: the generation of the entry that was found there.
        var generation: String?
    }

    private func lead(_ load: Load) async -> Result<Original, Error> {
        var load = load
        if !load.source.cachePolicy.mayKeep { return await unkept(load) }
        let (source, metrics, sent) = (load.source, load.metrics, load.source.sentFields)
        let deadline = ContinuousClock.now + configuration.waitBudget
        var awaited: [FlightWait] = []
        for _ in 0..<ImagePipeline.roundLimit {
            load.shared = await shared(source)
            if let answer = answer(load.shared, load) { return .success(answer) }
            let decision = await decision(load, after: awaited)
            // What has been waited for is newer than the request.
            if awaited.isEmpty, let answer = await steered(decision, load) { return answer }
            switch decision {
            // Chosen by what this request sends otherwise: not for it, and not for the next of its kind either.
            case .hit(let cached) where !cached.metadata.matches(request: sent),
                .stale(let cached, nil) where !cached.metadata.matches(request: sent):
                // Its variants are still good: this one takes its place.
                if source.sharedKey == nil { load.generation = cached.metadata.generation }
                await source.flights.discard(source.key)
            case .hit(let cached): return .success(hit(cached, metrics))
            case .stale(let cached, nil): return .success(stale(cached, metrics))
            case .stale(let cached, let lead?) where load.wish.wantsAnswer && isAllowed(cached, load):
                await source.flights.fail([lead], error: Error(.cancelled, "It is refreshed behind the answer."))
                refresh(load)
                return .success(stale(cached, metrics))
            // The asker may be here to refresh what was made of the stale one: it wants to know.
            case .stale(_, let lead?), .lead(let lead): return await fetch(lead, refusing: load.shared?.entry, load)
            case .failed(let error):
                let isAnswer = error.matches(request: sent, under: configuration)
                return isAnswer ? .failure(error) : await fetch(nil, load)
            case .wait(let flight):
                guard ContinuousClock.now < deadline else {
                    await source.flights.abandon(flight)
                    return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere for too long."))
                }
                metrics.update { $0.waits += 1 }
                await source.flights.wait(for: flight)
                if Task.isCancelled { return .failure(Error(.cancelled, "The request for \(source) was cancelled.")) }
                awaited = [flight]
            case nil: return .failure(Error(.waitTimedOut, "The coordinator of flights gave no decision."))
            }
        }
        return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere, again and again."))
    }

    /// Of the look that the asker has had, unless a load of the same original has ended since.
    private func decision(_ load: Load, after awaited: [FlightWait]) async -> FlightDecision? {
        let source = load.source
        if awaited.isEmpty, let look = load.look, let flights = source.flights as? LocalFlights,
            !ends.hasEnded(source.key, since: look.mark)
        {
            return flights.decision(source.key, look.entry, hasPartial: look.hasPartial)
        }
        return await source.flights.begin(
            [source.key],
            after: awaited,
            maximumFailureAge: source.request.failureAge
        ).first
    }

    private func isAllowed(_ cached: CachedData, _ load: Load) -> Bool {
        cached.metadata.matches(request: load.source.sentFields)
            && !load.source.cachePolicy.refuses(cached, at: Date())
    }

    /// Asks the origin about a stale entry that was served (RFC 5861 section 3).
    func refresh(_ load: Load) {
        let source = load.source
        var wish = load.wish
        wish.wantsAnswer = false
        // It is in the cache already.
        wish.keeps = !source.request.options.contains(.disableDiskCacheWrites)
        let start = refreshes.start([source.key]) { [self, wish] _ in
            let metrics = PipelineMetrics()
            do throws(Error) {
                try await original(source, wish, metrics).isStored()
            } catch {
                configuration.logger.debug("a stale original was not refreshed", metadata: ["error": "\(error)"])
            }
            if let url = source.request.url { configuration.didRefresh(url, metrics.counts) }
        }
        load.metrics.update { $0.dropped += start.dropped.count }
    }

    func stale(_ cached: CachedData, _ metrics: PipelineMetrics) -> Original {
        metrics.update {
            $0.originalHits += 1
            $0.staleHits += 1
            $0.addHit(in: cached.layer)
        }
        return Original(cached)
    }

    // MARK: - Files

    func onFileThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws(Error) -> Value
    ) async throws(Error) -> Value {
        do {
            return try await files.run { try work() }
        } catch let error as Error {
            throw error
        } catch {
            throw Error(.cancelled, "Cancelled while waiting for a file.")
        }
    }
}
