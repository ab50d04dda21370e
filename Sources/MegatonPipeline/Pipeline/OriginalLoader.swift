internal import Foundation
internal import FoundationNetworking

/// Has the bytes of sources: from files, from the caches or from their origins, each original once at a time.
final class OriginalLoader: Sendable {
    typealias Error = ImagePipeline.Error

    let configuration: ImagePipeline.Configuration
    private let files: ThreadPool
    let fetches: TaskQueue
    private let shared: WorkPool<CacheKey, Original>

    /// Threads that read local files.
    private static let fileThreads = 4

    init(_ configuration: ImagePipeline.Configuration) {
        self.configuration = configuration
        files = ThreadPool(name: "megaton-file", count: Self.fileThreads)
        fetches = TaskQueue(maxConcurrentOperationCount: configuration.fetchConcurrency)
        shared = WorkPool(isCoalescingEnabled: configuration.isTaskCoalescingEnabled)
    }

    deinit { files.stop() }

    /// Who waits for a fetch.
    var subscriberCount: Int { shared.subscriberCount }

    /// The bytes of a source.
    ///
    /// - Parameter parent: work that needs them: it is told the progress, and gives its priority.
    func original(
        _ source: Source,
        _ metrics: PipelineMetrics,
        for parent: WorkContext<ImageResponse>? = nil
    ) async throws(Error) -> Original {
        let localMetadata = CachedData.Metadata(lifetime: configuration.localLifetime.inSeconds)
        switch source.place {
        case .file(let file):
            let data: Data = try await onFileThread { [access = configuration.fileAccess, limit] () throws(Error) in
                try access.read(file, limit: limit)
            }
            metrics.update { $0.bytesIn += data.count }
            return Original(data: data, metadata: localMetadata)
        case .inline(let data):
            return Original(data: data, metadata: localMetadata)
        case .closure(let fetch):
            return try await closureOriginal(source, fetch, parent)
        case .remote(let request):
            return try await remoteOriginal(source, request, metrics, parent)
        }
    }

    private func bytes(_ data: Data, of source: Source) throws(Error) -> Data {
        if data.isEmpty { throw Error(.dataIsEmpty, "\(source) gave no bytes.") }
        if data.count > limit { throw Error(.dataTooLarge, "\(source) gave \(data.count) bytes, more than \(limit).") }
        return data
    }

    private func bytes(of source: Source, _ fetch: @Sendable () async throws -> Data) async throws(Error) -> Data {
        let data: Data
        do {
            data = try await fetch()
        } catch let error as Error {
            throw error
        } catch is CancellationError {
            throw Error(.cancelled, "The request for \(source) was cancelled.")
        } catch {
            throw Error(.dataLoadingFailed, "\(source): \(error)")
        }
        return try bytes(data, of: source)
    }

    private var limit: Int { configuration.maximumDataSize }

    /// Called once for all who want the same at the same time, in a place of the fetches unless the request skips them.
    private func closureOriginal(
        _ source: Source,
        _ fetch: @escaping @Sendable () async throws -> Data,
        _ parent: WorkContext<ImageResponse>?
    ) async throws(Error) -> Original {
        let job = WorkJob<Original>.running { [self] context throws(Error) in
            let load = { @Sendable [self] () async throws(Error) in try await bytes(of: source, fetch) }
            let isQueued = !source.request.options.contains(.skipDataLoadingQueue)
            let data = isQueued ? try await context.perform(on: fetches, load) : try await load()
            let metadata = CachedData.Metadata(lifetime: configuration.localLifetime.inSeconds)
            return Original(data: data, metadata: metadata)
        }
        return try await sharedOutcome(source, job, parent).result.get()
    }

    private func sharedOutcome(
        _ source: Source,
        _ job: WorkJob<Original>,
        _ parent: WorkContext<ImageResponse>?
    ) async -> WorkOutcome<Original> {
        guard let parent else {
            return await shared.outcome(for: source.key, priority: source.request.priority, job: job)
        }
        return await parent.outcome(of: shared, key: source.key, job: job)
    }

    // MARK: - Flights

    private func remoteOriginal(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics,
        _ parent: WorkContext<ImageResponse>?
    ) async throws(Error) -> Original {
        let job = WorkJob<Original>.running { [self] context throws(Error) in
            try await lead(source, request, metrics, context).get()
        }
        let outcome = await sharedOutcome(source, job, parent)
        let original = try outcome.result.get()
        if outcome.wasCoalesced {
            metrics.update {
                $0.waits += 1
                $0.originalHits += 1
            }
        }
        return original
    }

    private func lead(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics,
        _ context: WorkContext<Original>
    ) async -> Result<Original, Error> {
        let deadline = ContinuousClock.now + configuration.waitBudget
        let sent = request.allHTTPHeaderFields ?? [:]
        var awaited: [FlightWait] = []
        for _ in 0..<ImagePipeline.roundLimit {
            switch await configuration.flights.begin([source.key], after: awaited).first {
            // Chosen by what this request sends otherwise: not for it, and not for the next of its kind either.
            case .hit(let cached) where !cached.metadata.matches(request: sent),
                .stale(let cached, nil) where !cached.metadata.matches(request: sent):
                await configuration.flights.discard(source.key)
            case .hit(let cached):
                metrics.update { $0.originalHits += 1 }
                return .success(Original(cached))
            case .stale(let cached, nil): return .success(stale(cached, metrics))
            // The asker may be here to refresh what was made of the stale one: it wants to know.
            case .stale(_, let lead?), .lead(let lead): return await fetch(lead, source, request, metrics, context)
            case .failed(let error): return .failure(error)
            case .wait(let flight):
                guard ContinuousClock.now < deadline else {
                    await configuration.flights.abandon(flight)
                    return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere for too long."))
                }
                metrics.update { $0.waits += 1 }
                await configuration.flights.wait(for: flight)
                if Task.isCancelled { return .failure(Error(.cancelled, "The request for \(source) was cancelled.")) }
                awaited = [flight]
            case nil: return .failure(Error(.waitTimedOut, "The coordinator of flights gave no decision."))
            }
        }
        return .failure(Error(.waitTimedOut, "\(source) was being fetched elsewhere, again and again."))
    }

    private func stale(_ cached: CachedData, _ metrics: PipelineMetrics) -> Original {
        metrics.update {
            $0.originalHits += 1
            $0.staleHits += 1
        }
        return Original(cached)
    }

    // MARK: - Origins

    /// Asks the origin, about a stale entry if there is one. A failure ends the flight; what came ends it once stored.
    private func fetch(
        _ lead: FlightLead,
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics,
        _ context: WorkContext<Original>
    ) async -> Result<Original, Error> {
        let sent = request.allHTTPHeaderFields ?? [:]
        // RFC 9111 section 4.3.1: only what could have been the answer is asked about.
        let known = lead.stale.flatMap { $0.metadata.matches(request: sent) ? $0 : nil }
        do throws(Error) {
            let exchange = try await exchange(source, request, known, metrics, context)
            metrics.update { $0.bytesIn += exchange.data.count }
            return .success(try received(exchange, known, lead, metrics))
        } catch {
            // Remembered, so that the origin is left alone for a moment; those who wait get the stale entry too.
            await configuration.flights.fail([lead], error: error)
            guard let cached = known, cached.mayServe(after: error) else { return .failure(error) }
            return .success(stale(cached, metrics))
        }
    }

    /// What was sent when, and what came.
    private struct Exchange {
        let request: URLRequest
        let requested: Date
        let data: Data
        let response: URLResponse?
    }

    /// Asks about what is known; and once more without that where the answer is that something else has not changed.
    private func exchange(
        _ source: Source,
        _ request: URLRequest,
        _ known: CachedData?,
        _ metrics: PipelineMetrics,
        _ context: WorkContext<Original>
    ) async throws(Error) -> Exchange {
        let first = try await exchange(source, request.revalidating(known), metrics, context)
        guard let http = first.response as? HTTPURLResponse, http.statusCode == 304, let known,
            !known.metadata.isConfirmed(by: http.lowercasedHeaders)
        else { return first }
        return try await exchange(source, request, metrics, context)
    }

    private func exchange(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics,
        _ context: WorkContext<Original>
    ) async throws(Error) -> Exchange {
        // Before a place is taken, which those for other hosts can use meanwhile.
        if let url = request.url { try await configuration.rateLimiter?.acquire(for: url) }
        return try await context.perform(on: fetches) { [self] () throws(Error) in
            let requested = Date()
            let (data, response) = try await ask(source, request, metrics, context)
            return Exchange(request: request, requested: requested, data: data, response: response)
        }
    }

    /// Asks the origin if the gate lets us, and tells the gate how it went.
    private func ask(
        _ source: Source,
        _ request: URLRequest,
        _ metrics: PipelineMetrics,
        _ context: WorkContext<Original>
    ) async throws(Error) -> (data: Data, response: URLResponse?) {
        let request = try await prepared(request, source)
        guard let url = request.url else { throw Error(.invalidURL, "A request without a URL cannot be sent.") }
        let loader = source.hooks?.dataLoader() ?? configuration.dataLoader
        let pass = try await configuration.originGate.enter(url)
        metrics.update { $0.originFetches += 1 }
        do throws(Error) {
            let answer = try await loader.data(for: request, limit: limit) { completed, total in
                context.send(completed: completed, total: total)
            }
            await configuration.originGate.leave(pass, .answered)
            return answer
        } catch {
            await configuration.originGate.leave(pass, OriginOutcome(error))
            throw error
        }
    }

    /// The request as the delegate wants it to be sent.
    private func prepared(_ request: URLRequest, _ source: Source) async throws(Error) -> URLRequest {
        guard let hooks = source.hooks else { return request }
        let prepared: URLRequest
        do {
            prepared = try await hooks.willLoadData(request)
        } catch is CancellationError {
            throw Error(.cancelled, "The request for \(source) was cancelled.", stage: .load)
        } catch {
            throw Error(.dataLoadingFailed, "willLoadData for \(source): \(error)", stage: .load)
        }
        if Task.isCancelled { throw Error(.cancelled, "The request for \(source) was cancelled.", stage: .load) }
        if let url = prepared.url, url != request.url { try configuration.urlPolicy.check(url) }
        return prepared
    }

    private func received(
        _ exchange: Exchange,
        _ known: CachedData?,
        _ lead: FlightLead,
        _ metrics: PipelineMetrics
    ) throws(Error) -> Original {
        let (request, requested, response) = (exchange.request, exchange.requested, exchange.response)
        let http = response as? HTTPURLResponse
        let (url, headers) = (request.url?.absoluteString ?? "", http?.lowercasedHeaders ?? [:])
        let (sent, mayKeep) = (request.allHTTPHeaderFields ?? [:], RequestCachePolicy(request).mayKeep)
        switch (http?.statusCode ?? 200, known) {
        case (let status, _) where HTTPFreshness.keptStatuses.contains(status):
            guard !exchange.data.isEmpty else { throw Error(.dataIsEmpty, "\(url) answered with an empty body.") }
            let metadata = CachedData.Metadata(headers: headers, request: sent, status: status, requested: requested)
            return original(exchange.data, nil, mayKeep ? metadata : nil, response, lead)
        case (304, let stale?):
            metrics.update { $0.revalidations += 1 }
            let metadata = stale.metadata.refreshed(by: headers, request: sent, requested: requested)
            return original(stale.data, stale.checksum, mayKeep ? metadata : nil, response, lead)
        // A condition of the caller's own, a part that nobody asked for, or a loader that makes no error of a status.
        case (let status, _): throw HTTPStatusError.error(status: status, headers: headers, url: url)
        }
    }

    /// What the origin has given or confirmed.
    private func original(
        _ data: Data,
        _ checksum: String?,
        _ metadata: CachedData.Metadata?,
        _ response: URLResponse?,
        _ lead: FlightLead
    ) -> Original {
        let keeps =
            configuration.dataCachePolicy.keepsOriginals && AssetType(data).map(configuration.types.contains) == true
        let entry = keeps ? metadata.map { CachedData(data: data, metadata: $0, checksum: checksum) } : nil
        let flights = configuration.flights
        return Original(data: data, metadata: metadata, response: response) { await flights.finish([(lead, entry)]) }
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
