internal import Foundation
internal import FoundationNetworking

/// Has the bytes of sources: from files, from the caches or from their origins, each original once at a time.
final class OriginalLoader: Sendable {
    typealias Error = ImagePipeline.Error

    let configuration: ImagePipeline.Configuration
    private let files: ThreadPool
    let fetches: TaskQueue
    private let pool: WorkPool<OriginalLoadKey, Original>
    /// What is to be kept.
    let demand = OriginalDemand()
    /// What previews are wanted of.
    let previews = OriginalDemand()

    /// Threads that read local files.
    private static let fileThreads = 4

    init(_ configuration: ImagePipeline.Configuration) {
        self.configuration = configuration
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
    ///   - parent: work that needs them: it is told the progress, and gives its priority in place of the wish's.
    ///   - onPartial: is told of unfinished ones while somebody wants previews of them, and there is a parent.
    func original(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        for parent: (any WorkParent)? = nil,
        onPartial: @escaping @Sendable (Original) -> Void = { _ in }
    ) async throws(Error) -> Original {
        do throws(Error) {
            return try await found(source, wish, metrics, parent, onPartial)
        } catch {
            // Whoever has failed: a loader of somebody else knows nothing of stages, and a limit nothing of URLs.
            throw error.about(source.request, at: .load)
        }
    }

    private func found(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async throws(Error) -> Original {
        guard wish.asksOrigin else { return try await kept(source, wish, metrics) }
        switch source.place {
        case .file(let file):
            let data: Data = try await metrics.timing(\.fetching) { () async throws(Error) in
                try await onFileThread { [access = configuration.fileAccess, limit] () throws(Error) in
                    try access.read(file, limit: limit)
                }
            }
            metrics.update { $0.bytesIn += data.count }
            return Original(data: data, metadata: localMetadata)
        case .inline(let data): return Original(data: data, metadata: localMetadata)
        case .closure, .remote: return try await shared(source, wish, metrics, parent, onPartial)
        }
    }

    var localMetadata: CachedData.Metadata { CachedData.Metadata(lifetime: configuration.localLifetime.inSeconds) }
    var limit: Int { configuration.maximumDataSize }

    /// What a cache has.
    private func kept(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics
    ) async throws(Error) -> Original {
        if wish.readsCaches, source.isKept, let entry = await source.flights.lookUp([source.key]).first ?? nil,
            entry.metadata.matches(request: source.sentFields),
            source.cachePolicy.isContent(with: entry, at: Date())
        {
            return hit(entry, metrics)
        }
        throw Error(.dataMissingInCache, "\(source) is in no cache, and the origin is not to be asked.", stage: .load)
    }

    // MARK: - Flights

    private func shared(
        _ source: Source,
        _ wish: OriginalWish,
        _ metrics: PipelineMetrics,
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async throws(Error) -> Original {
        var key = OriginalLoadKey(source)
        let claim = demand.claim(key, if: wish.keeps)
        defer { claim?.end() }
        var outcome = await outcome(key, source, wish, metrics, parent, onPartial)
        if !wish.readsCaches, case .success(let found) = outcome.result, found.isFromCache {
            // What was joined had only been looking yet, and has found something.
            key.isReload = true
            outcome = await self.outcome(key, source, wish, metrics, parent, onPartial)
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
        _ parent: (any WorkParent)?,
        _ onPartial: @escaping @Sendable (Original) -> Void
    ) async -> WorkOutcome<Original> {
        let job = WorkJob<Original>.running { [self] context throws(Error) in
            let load = Load(source: source, wish: wish, metrics: metrics, context: context)
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
        let context: WorkContext<Original>
    }

    private func lead(_ load: Load) async -> Result<Original, Error> {
        if !load.source.cachePolicy.mayKeep { return await unkept(load) }
        let (source, metrics, sent) = (load.source, load.metrics, load.source.sentFields)
        let deadline = ContinuousClock.now + configuration.waitBudget
        var awaited: [FlightWait] = []
        for _ in 0..<ImagePipeline.roundLimit {
            let decision = await source.flights.begin(
                [source.key],
                after: awaited,
                maximumFailureAge: source.request.failureAge
            ).first
            // What has been waited for is newer than the request.
            if awaited.isEmpty, let answer = await steered(decision, load) { return answer }
            switch decision {
            // Chosen by what this request sends otherwise: not for it, and not for the next of its kind either.
            case .hit(let cached) where !cached.metadata.matches(request: sent),
                .stale(let cached, nil) where !cached.metadata.matches(request: sent):
                await source.flights.discard(source.key)
            case .hit(let cached): return .success(hit(cached, metrics))
            case .stale(let cached, nil): return .success(stale(cached, metrics))
            // The asker may be here to refresh what was made of the stale one: it wants to know.
            case .stale(_, let lead?), .lead(let lead): return await fetch(lead, load)
            case .failed(let error):
                return error.matches(request: sent) ? .failure(error) : await fetch(nil, load)
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
