internal import Foundation
internal import FoundationNetworking
import Synchronization

extension OriginalLoader {
    /// Asks the origin, about a stale entry if there is one. A failure ends the flight; what came ends it once stored.
    ///
    /// - Parameter lead: nil where the caches were not asked, and no flight was begun.
    func fetch(_ lead: FlightLead?, _ load: Load) async -> Result<Original, Error> {
        // RFC 9111 section 4.3.1: only what could have been the answer is asked about.
        let known = lead?.stale.flatMap { $0.metadata.matches(request: load.source.sentFields) ? $0 : nil }
        do throws(Error) {
            switch load.source.place {
            case .closure(let fetch):
                let data = try await bytes(fetch, load)
                return .success(original(data, nil, localMetadata, nil, lead, load))
            case .remote(let request):
                let exchange = try await exchange(request, known, load)
                load.metrics.update { $0.bytesIn += exchange.data.count }
                return .success(try received(exchange, known, lead, load))
            case .file, .inline: throw Error(.dataLoadingFailed, "\(load.source) is no matter of an origin.")
            }
        } catch {
            // Remembered, so that the origin is left alone for a moment; those who wait get the stale entry too.
            if let lead { await configuration.flights.fail([lead], error: error) }
            guard let cached = known, cached.mayServe(after: error) else { return .failure(error) }
            return .success(stale(cached, load.metrics))
        }
    }

    // MARK: - Closures

    /// - Throws: `.dataIsEmpty`, `.dataTooLarge`, or what the closure throws, as `.dataLoadingFailed`.
    private func bytes(_ fetch: @escaping @Sendable () async throws -> Data, _ load: Load) async throws(Error) -> Data {
        let source = load.source
        guard load.wish.waitsForPlace else { return try await bytes(of: source, fetch) }
        return try await load.context.perform(on: fetches) { [self] () async throws(Error) in
            try await bytes(of: source, fetch)
        }
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
        if data.isEmpty { throw Error(.dataIsEmpty, "\(source) gave no bytes.") }
        if data.count > limit { throw Error(.dataTooLarge, "\(source) gave \(data.count) bytes, more than \(limit).") }
        return data
    }

    // MARK: - Exchanges

    /// What was sent when, and what came.
    private struct Exchange {
        let request: URLRequest
        let requested: Date
        let data: Data
        let response: URLResponse?
    }

    /// Asks about what is known; and once more without that where the answer is that something else has not changed.
    private func exchange(
        _ request: URLRequest,
        _ known: CachedData?,
        _ load: Load
    ) async throws(Error) -> Exchange {
        let first = try await exchange(request.revalidating(known), load)
        guard let http = first.response as? HTTPURLResponse, http.statusCode == 304, let known,
            !known.metadata.isConfirmed(by: http.lowercasedHeaders)
        else { return first }
        return try await exchange(request, load)
    }

    private func exchange(_ request: URLRequest, _ load: Load) async throws(Error) -> Exchange {
        // Before a place is taken, which those for other hosts can use meanwhile.
        if let url = request.url { try await configuration.rateLimiter?.acquire(for: url) }
        return try await load.context.perform(on: fetches) { [self] () throws(Error) in
            let requested = Date()
            let (data, response) = try await ask(request, load)
            return Exchange(request: request, requested: requested, data: data, response: response)
        }
    }

    /// Asks the origin if the gate lets us, and tells the gate how it went.
    private func ask(
        _ request: URLRequest,
        _ load: Load
    ) async throws(Error) -> (data: Data, response: URLResponse?) {
        let request = try await prepared(request, load.source)
        guard let url = request.url else { throw Error(.invalidURL, "A request without a URL cannot be sent.") }
        let loader = load.source.hooks?.dataLoader() ?? configuration.dataLoader
        let pass = try await configuration.originGate.enter(url)
        load.metrics.update { $0.originFetches += 1 }
        do throws(Error) {
            let last = Mutex<ContinuousClock.Instant?>(nil)
            let interval = configuration.progressiveDecodingInterval
            let answer = try await loader.data(for: request, limit: limit) { completed, total in
                load.context.send(completed: completed, total: total)
            } isPartialWanted: { [previews] in
                guard previews.contains(OriginalLoadKey(load.source)) else { return false }
                return last.withLock { last in
                    let now = ContinuousClock.now
                    if let last, last.duration(to: now) < interval { return false }
                    last = now
                    return true
                }
            } onPartial: { data, response in
                load.context.send(partial: Original(data: data, metadata: nil, response: response))
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
        _ lead: FlightLead?,
        _ load: Load
    ) throws(Error) -> Original {
        let (request, requested, response) = (exchange.request, exchange.requested, exchange.response)
        let http = response as? HTTPURLResponse
        let (url, headers) = (request.url?.absoluteString ?? "", http?.lowercasedHeaders ?? [:])
        let (sent, mayKeep) = (request.allHTTPHeaderFields ?? [:], RequestCachePolicy(request).mayKeep)
        switch (http?.statusCode ?? 200, known) {
        case (let status, _) where HTTPFreshness.keptStatuses.contains(status):
            guard !exchange.data.isEmpty else { throw Error(.dataIsEmpty, "\(url) answered with an empty body.") }
            let metadata = CachedData.Metadata(headers: headers, request: sent, status: status, requested: requested)
            return original(exchange.data, nil, mayKeep ? metadata : nil, response, lead, load)
        case (304, let stale?):
            load.metrics.update { $0.revalidations += 1 }
            let metadata = stale.metadata.refreshed(by: headers, request: sent, requested: requested)
            return original(stale.data, stale.checksum, mayKeep ? metadata : nil, response, lead, load)
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
        _ lead: FlightLead?,
        _ load: Load
    ) -> Original {
        let isWorthIt = AssetType(data).map(configuration.types.contains) == true
        let entry = isWorthIt ? metadata.map { CachedData(data: data, metadata: $0, checksum: checksum) } : nil
        let keeping = OriginalKeeping(
            configuration.flights,
            load.source.key,
            lead,
            entry,
            isWanted: demand.contains(OriginalLoadKey(load.source))
        )
        return Original(data: data, metadata: metadata, response: response, keeping: keeping)
    }
}
