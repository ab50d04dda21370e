internal import Foundation
internal import FoundationNetworking

extension OriginalLoader {
    /// Asks the origin, conditionally if there is a stale entry. A failure ends the flight; a success ends it once the
    /// response is stored.
    ///
    /// - Parameters:
    ///   - leader: nil if no flight was started: the caches were not asked, or had an entry that the request refused.
    ///   - refused: cached entry that the request does not accept without asking the origin, or one without bytes that
    ///     has the validators of the caller's renditions (`OriginalRequestOptions.confirming`).
    func fetch(
        _ leader: SingleFlight.Leader?,
        refusing refused: CachedData? = nil,
        _ load: Load
    ) async -> Result<Original, Error> {
        // RFC 9111 section 4.3.1: only an entry that matches the request is revalidated.
        let entry = leader?.stale ?? refused
        var load = load
        if load.source.sharedKey == nil { load.generation = load.generation ?? entry?.metadata.generation }
        let known = entry.flatMap { $0.metadata.matches(request: load.source.sentFields) ? $0 : nil }
        if leader == nil, let error = await bindingFailure(load) { return failure(error, known, load) }
        do throws(Error) {
            switch load.source.location {
            case .closure(let fetch):
                let data = try await bytes(fetch, load)
                return .success(original(data, localMetadata, nil, leader, load))
            case .remote(let request):
                let exchange = try await exchange(request, known, leader, load)
                load.metrics.update { $0.bytesIn += exchange.data.count }
                if request.isUnsafe { await invalidate(after: exchange.response, load.source) }
                let confirmsRenditions = known?.data.isEmpty == true && exchange.isNotModified
                let original = try received(exchange, known, confirmsRenditions ? nil : leader, load)
                // The end of a flight with an original clears a remembered failure; otherwise this does so.
                if leader == nil || confirmsRenditions, load.source.isCacheable,
                    !load.source.cachePolicy.isExclusive
                {
                    await load.source.flights.remember(nil, for: load.source.key)
                }
                if leader == nil, let refused, !refused.data.isEmpty, original.metadata == nil,
                    load.source.cachePolicy.allowsStorage, !exchange.unkeyed.isExclusive
                {
                    // The origin forbids storing the entry by now. The end of a flight would remove it.
                    await load.source.flights.discard(load.shared?.key ?? load.source.key)
                }
                if confirmsRenditions, let leader {
                    // There is nothing to store. Of those that wait for the original, one leads next.
                    let reason = Error(.cancelled, "The origin has confirmed renditions, and sent no original.")
                    await load.source.flights.fail([leader], error: reason)
                }
                return .success(original)
            case .file, .inline: throw Error(.dataLoadingFailed, "\(load.source) is local and has no origin.")
            }
        } catch {
            // The failure is remembered to spare the origin. Waiters may get the stale entry too.
            var error = error
            if case .remote(let request) = load.source.location { error.address = address(of: request, load) }
            let reported = error.about(load.source.request, at: .load).asked(with: load.source.sentFields)
                .met(under: configuration)
            // The origin's answer is definitive: discard the refused entry, also if no flight does so. Not after the
            // failure is remembered, which would be forgotten with it.
            if refused != nil, error.supersedesEntry {
                await load.source.flights.discard(load.shared?.key ?? load.source.key)
            }
            if let leader {
                await load.source.flights.fail([leader], error: reported)
            } else if load.options.storesOriginal, load.source.isCacheable, load.source.cachePolicy.allowsStorage {
                await load.source.flights.remember(reported, for: load.source.key)
            }
            return failure(error, known, load)
        }
    }

    /// The addresses of the last load that are not public, redirects included; nil if all are. For an object it is the
    /// store, whose endpoint the operator names.
    func address(of request: URLRequest, _ load: Load) -> String? {
        request.url?.scheme?.lowercased() == "s3"
            ? configuration.origins.store : load.metrics.timings?.specialAddress
    }

    /// Remembered failure of an origin that asked for a delay (Retry-After). With a flight, `begin` has checked that.
    private func bindingFailure(_ load: Load) async -> Error? {
        guard case .remote = load.source.location, !load.source.cachePolicy.isExclusive,
            let error = await load.source.flights.bindingFailure(for: load.source.key),
            error.matches(request: load.source.sentFields)
        else { return nil }
        return error
    }

    /// The stale entry instead of a failure, if the origin and the request allow that.
    private func failure(_ error: Error, _ known: CachedData?, _ load: Load) -> Result<Original, Error> {
        // The renditions that an entry without bytes stands for decide by themselves.
        guard let cached = known, !cached.data.isEmpty, cached.mayServe(after: error),
            !load.source.cachePolicy.forbids(cached, at: Date())
        else { return .failure(error) }
        return .success(stale(cached, load.metrics))
    }

    // MARK: - Closures

    /// - Throws: `.dataIsEmpty`, `.dataTooLarge`, or the closure's error as `.dataLoadingFailed`.
    private func bytes(_ fetch: @escaping @Sendable () async throws -> Data, _ load: Load) async throws(Error) -> Data {
        let source = load.source
        guard load.options.waitsForSlot else { return try await bytes(of: source, fetch) }
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
            throw Error(.dataLoadingFailed, "\(source): \(error)", underlying: error)
        }
        if data.isEmpty { throw Error(.dataIsEmpty, "\(source) returned no bytes.") }
        if data.count > limit {
            throw Error(
                .dataTooLarge,
                "\(source) returned \(data.count) bytes; the limit is \(limit) "
                    + "(ImagePipeline.Configuration.maximumDataSize)."
            )
        }
        return data
    }

    // MARK: - Exchanges

    /// A request, the time at which it was sent, and the response with its whole body.
    struct Exchange {
        let request: URLRequest
        let unkeyed: UnkeyedHeaders
        let requested: Date
        let data: Data
        let response: URLResponse?
        /// As of an ``Original``.
        var wholeLength: Int?
        /// The special address that the first bytes came from, if they are of an earlier download.
        var partialAddress: String?

        var isNotModified: Bool { (response as? HTTPURLResponse)?.statusCode == 304 }
    }

    /// Revalidates a known entry. If a 304 refers to another entry, or comes from another URL, because redirects lead
    /// elsewhere by now, repeats the request without a condition. An interrupted download of another representation is
    /// continued instead: it began because the entry had changed.
    private func exchange(
        _ request: URLRequest,
        _ known: CachedData?,
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) async throws(Error) -> Exchange {
        let isContinued = leader?.hasPartial == true ? await hasNewerPart(than: known, request, load) : false
        let first = try await download(isContinued ? request : request.revalidating(known), leader, load)
        guard first.isNotModified, let metadata = known?.metadata, let http = first.response as? HTTPURLResponse
        else { return first }
        let isSameURL = metadata.responder == CachedData.Metadata.responder(of: http, to: request)
        if isSameURL, metadata.isConfirmed(by: http.lowercasedHeaders) { return first }
        return try await download(request, leader, load)
    }

    private func received(
        _ exchange: Exchange,
        _ known: CachedData?,
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) throws(Error) -> Original {
        let (request, requested, response) = (exchange.request, exchange.requested, exchange.response)
        let http = response as? HTTPURLResponse
        let (url, headers) = (request.url?.redacted ?? "", http?.lowercasedHeaders ?? [:])
        // `Vary` is recorded with the request's keyed header fields, as later requests are compared by these.
        let (asked, unkeyed) = (request.allHTTPHeaderFields ?? [:], exchange.unkeyed)
        let policy = load.source.cachePolicy
        let allowsStorage = policy.allowsStorage && !unkeyed.isExclusive && unkeyed.areIrrelevant(to: headers)
        if policy.isExclusive, load.options.wantsResponse {
            return original(exchange.data, nil, response, leader, load)
        }
        let heuristic = configuration.heuristicLifetime.inSeconds
        switch (http?.statusCode ?? 200, known) {
        case (let status, _) where HTTPFreshness.keptStatuses.contains(status):
            guard !exchange.data.isEmpty else {
                throw Error(.dataIsEmpty, "\(url) returned an empty body.").with(http)
            }
            let freshness = HTTPFreshness(
                headers: headers,
                status: status,
                isAuthorized: unkeyed.isAuthorized,
                heuristic: heuristic,
                requested: requested
            )
            let metadata = CachedData.Metadata(
                freshness,
                headers: headers,
                request: asked,
                status: status,
                requested: requested
            )
            if allowsStorage, let obstacle = freshness.obstacle {
                load.metrics.add(notes: ["not stored in the cache: \(obstacle)"])
            }
            return original(
                exchange.data,
                allowsStorage ? metadata : nil,
                response,
                leader,
                load,
                wholeLength: exchange.wholeLength,
                partialAddress: exchange.partialAddress
            )
        case (304, let stale?):
            return confirmed(stale, exchange, isStored: allowsStorage, leader, load)
        // The caller's own condition, an unrequested partial response, or a loader that does not throw for a status.
        case (let status, _):
            throw HTTPStatusError.error(status: status, headers: headers, url: url).with(http, exchange.data)
                .asked(with: asked, unkeyed)
        }
    }

    /// The original that a 304 confirms.
    private func confirmed(
        _ stale: CachedData,
        _ exchange: Exchange,
        isStored: Bool,
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) -> Original {
        let http = exchange.response as? HTTPURLResponse
        let headers = http?.lowercasedHeaders ?? [:]
        load.metrics.update { $0.revalidations += 1 }
        let metadata = stale.metadata.refreshed(
            by: headers,
            request: exchange.request.allHTTPHeaderFields ?? [:],
            isAuthorized: exchange.unkeyed.isAuthorized,
            heuristic: configuration.heuristicLifetime.inSeconds,
            requested: exchange.requested
        )
        // A 304 is for the cache; the caller gets the response that it confirms (RFC 9111 section 4.3.3).
        let answer = (http?.url ?? exchange.request.url).flatMap {
            stale.metadata.response(for: $0, updatedBy: headers, length: stale.data.count)
        }
        return original(
            stale.data,
            confirming: stale,
            isStored ? metadata : nil,
            answer ?? exchange.response,
            leader,
            load
        )
    }

    /// The original that the origin has sent or confirmed.
    private func original(
        _ data: Data,
        confirming stale: CachedData? = nil,
        _ metadata: CachedData.Metadata?,
        _ response: URLResponse?,
        _ leader: SingleFlight.Leader?,
        _ load: Load,
        wholeLength: Int? = nil,
        partialAddress: String? = nil
    ) -> Original {
        var metadata = metadata
        if metadata?.vary != nil { metadata?.generation = generation(load) }
        var address: String?
        if case .remote(let request) = load.source.location {
            metadata = metadata?.bounded(byRedirects: load.metrics.timings?.redirectLifetime)
            metadata?.responder = CachedData.Metadata.responder(of: response, to: request)
            metadata?.source = request.url.map(Error.withoutQuery)
            // Bytes of confirmed entries and resumed loads came earlier.
            address = self.address(of: request, load) ?? partialAddress ?? stale?.metadata.address
            metadata?.address = address
        }
        let isWorthIt = AssetType(data).map(configuration.types.contains) == true
        let key = OriginalLoadKey(load.source)
        var entry = isWorthIt ? metadata.map { CachedData(data: data, metadata: $0, checksum: stale?.checksum) } : nil
        entry?.isStoredIfReused = configuration.dataCachePolicy == .storeReused && !reuse.contains(key)
        let received = configuration.date()
        if wholeLength != nil {
            // The cache only remembers that the original was fetched.
            if entry?.isStoredIfReused == false { entry = nil }
            entry?.isPart = true
        }
        let writer = OriginalCacheWriter(
            load.source.flights,
            load.source.key,
            leader,
            entry,
            shared: storageKeys(of: metadata, load),
            isReplacing: load.shared?.entry != nil,
            // A confirmed entry stays stored, also for a request that stores nothing.
            isWanted: demand.contains(key) || stale != nil,
            // The delegate was asked about confirmed bytes when they were first stored.
            willCache: stale == nil ? load.source.hooks?.willCache : nil,
            copies: copies,
            received: received,
            date: configuration.date
        )
        return Original(
            data: data,
            metadata: metadata,
            response: response,
            received: received,
            wholeLength: wholeLength,
            address: address,
            confirmsRenditions: stale?.data.isEmpty == true,
            writer: writer
        )
    }
}

extension URLRequest {
    /// A request that revalidates an entry (RFC 9111 section 4.3.1); the request itself if there is no entry, or if it
    /// has no validator.
    func revalidating(_ entry: CachedData?) -> URLRequest {
        guard let metadata = entry?.metadata else { return self }
        var request = self
        if let etag = metadata.etag { request.setValue(etag, forHTTPHeaderField: "If-None-Match") }
        if let date = metadata.lastModified { request.setValue(date, forHTTPHeaderField: "If-Modified-Since") }
        return request
    }
}

extension CachedData.Metadata {
    /// An entry that only revalidates.
    var withoutBytes: CachedData { CachedData(data: Data(), metadata: self) }
}
