internal import Foundation
internal import FoundationNetworking
import Synchronization

// Downloads that resume where an earlier one was interrupted, here or in another process that shares the cache:
//
//   look up a partial ─ add Range and If-Range ─ willLoadData ─ gate ─ load ─┬─ 206: the rest ──► complete: remove it
//                                 │                                          ├─ 200: the first bytes are enough: end
//                                 ▲                                          ├─ 200: all of it ─► complete: remove it
//                                 └──────── once, without a range ◄── 416 ───┤
//                                                                            └─ interrupted: store the partial
extension OriginalLoader {
    /// Downloads the whole body, or the rest of it, in a fetch slot. Either way the result is that of a complete
    /// download.
    func download(
        _ request: URLRequest,
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) async throws(Error) -> Exchange {
        let partials = partialStore(of: request, load)
        // Few originals have a partial download, and the leader may know: that saves the round trip of a lookup.
        let found = leader?.hasPartial == false ? nil : await partial(for: request, partials, load)
        // Before a fetch slot is acquired: fetches from other hosts can use it meanwhile.
        if let url = request.url { try await configuration.rateLimiter?.acquire(for: url) }
        return try await load.context.perform(on: fetches) { [self] () async throws(Error) in
            let requested = Date()
            // The second round, after a range that the origin refused, is without one.
            let rounds: [ResumableData?] = found == nil ? [nil] : [found, nil]
            for partial in rounds {
                let limits = ResumableData.Limits(most: limit)
                var download = ResumableDownload(request, resuming: partial, limits: limits, spool: spool)
                let sent = try await prepared(download.request, load)
                // RFC 9111 section 3.5: header fields that the delegate has just added count too.
                download.unkeyed = UnkeyedHeaders(
                    sent: sent,
                    known: download.request,
                    scope: load.source.request.credentialScope
                )
                let outcome = try await send(download, as: sent, partials, leader, load)
                switch outcome {
                case .done(let data, let response), .enough(let data, let response):
                    await partials?.finish(storing: nil)
                    var exchange = Exchange(
                        request: request,
                        unkeyed: download.unkeyed,
                        requested: requested,
                        data: data,
                        response: response
                    )
                    if case .enough = outcome { exchange.wholeLength = Int(response?.expectedContentLength ?? 0) }
                    // A 200 has all bytes, those of the part too.
                    if load.metrics.timings?.status != 200 { exchange.partialAddress = partial?.address }
                    return exchange
                case .again:
                    await partials?.finish(storing: nil)
                case .failed(let error, let received):
                    await partials?.finish(storing: received)
                    throw error.asked(with: request.allHTTPHeaderFields ?? [:], download.unkeyed)
                }
            }
            // Without a partial download no outcome is `.again`.
            throw Error(.badResponse, "\(load.source) refused a range that was not requested.", stage: .load)
        }
    }

    /// Sends a request when the gate admits it, and reports the outcome to the gate.
    private func send(
        _ download: ResumableDownload,
        as request: URLRequest,
        _ partials: PartialDownloadStore?,
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) async throws(Error) -> ResumableDownload.Outcome {
        guard let url = request.url else { throw Error(.invalidURL, "A request without a URL cannot be sent.") }
        let loader = load.source.hooks?.dataLoader() ?? configuration.dataLoader
        let permit = try await configuration.fetchLimiter.acquire(for: url)
        // The timings of an earlier request say nothing about this one.
        load.metrics.set(nil)
        let start = ContinuousClock.now
        let outcome = await load.metrics.timingFetch { () async -> ResumableDownload.Outcome in
            await load.metrics.inSpan(.fetch) { () async -> ResumableDownload.Outcome in
                let observer = observer(partials, leader, load, permit)
                return await loader.attempt(download, as: request, limit: limit, observer: observer)
            } facts: { (result: Result<ResumableDownload.Outcome, Never>) in
                Self.facts(of: result.get(), from: url)
            }
        }
        if !isRefused(outcome, load) { load.metrics.update { $0.originFetches += 1 } }
        if case .enough(let data, _) = outcome { load.metrics.endTimings(after: start.duration(to: .now), data.count) }
        guard case .failed(var error, let kept) = outcome else {
            await configuration.fetchLimiter.release(permit, outcome: .answered)
            return outcome
        }
        let end = Self.outcome(of: error, for: url, load.metrics.timings)
        // If the host is given up with this failure, the error says so: a retry would be refused.
        error.hostTurn = await configuration.fetchLimiter.release(permit, outcome: end, cause: error)
        return .failed(error, kept: kept)
    }

    /// The outcome for the host of the request. One that has redirected to another site has answered, however that one
    /// ends: its Retry-After, for example, is about itself (RFC 9110 section 10.2.3). Within a site, as from
    /// `example.org` to `www.example.org`, the end counts: all its sources would meet it.
    private static func outcome(of error: Error, for url: URL, _ timings: LoadTimings?) -> OriginOutcome {
        let outcome = OriginOutcome(error)
        guard outcome != .none, let timings, timings.redirects > 0,
            let last = timings.effectiveURL.flatMap(URL.init(string:)),
            Self.site(of: last) != Self.site(of: url)
        else { return outcome }
        return .answered
    }

    /// The last two labels of the host, or its address. That may be more than one site, such as `co.uk`.
    private static func site(of url: URL) -> String {
        let host = HostName.canonical(of: url)
        return IPAddress(host) == nil ? host.split(separator: ".").suffix(2).joined(separator: ".") : host
    }

    private static func facts(of outcome: ResumableDownload.Outcome, from url: URL) -> SpanFacts {
        var facts = SpanFacts()
        facts.host = SpanFacts.host(of: url)
        switch outcome {
        case .done(let data, _), .enough(let data, _): facts.bytes = data.count
        case .again: break
        case .failed(let error, _): facts.fail(error.code.rawValue)
        }
        return facts
    }

    /// Whether no origin was asked, because a local rule forbids the address or the source.
    private func isRefused(_ outcome: ResumableDownload.Outcome, _ load: Load) -> Bool {
        guard case .failed(let error, _) = outcome, error.status == nil,
            [.forbidden, .credentialMissing, .invalidURL].contains(error.code)
        else { return false }
        // A redirect that leads to a forbidden address has cost a fetch.
        guard let timings = load.metrics.timings else { return true }
        return timings.connects == 0 && timings.redirects == 0
    }

    private func observer(
        _ partials: PartialDownloadStore?,
        _ leader: SingleFlight.Leader?,
        _ load: Load,
        _ permit: FetchPermit
    ) -> DownloadObserver {
        let schedule = PartSchedule(interval: configuration.progressiveDecodingInterval)
        let key = OriginalLoadKey(load.source)
        let wantsPreview: @Sendable () -> Bool = { [previews] in schedule.isDue && previews.contains(key) }
        return DownloadObserver(
            onProgress: { [limiter = configuration.fetchLimiter] completed, total in
                if permit.isFirst { limiter.noteFirstBytes(permit) }
                load.context.send(completed: completed, total: total)
            },
            wantsPart: { partials?.isDue == true || wantsPreview() },
            onPart: { download in
                if let partials, partials.isDue { partials.checkpoint(download) }
                if wantsPreview(), schedule.take() {
                    let original = Original(data: download.body, metadata: nil, response: download.response)
                    load.context.send(partial: original)
                }
            },
            onTimings: { load.metrics.set($0) },
            need: need(leader, load)
        )
    }

    /// How much more of an original is needed than the bytes so far; nil if it is to be loaded completely, because a
    /// cache is to have it, or because it is known to be needed again. `reuse` and `previews` change while it arrives.
    private func need(
        _ leader: SingleFlight.Leader?,
        _ load: Load
    ) -> (@Sendable (UnsafeRawBufferPointer) -> DownloadObserver.Need)? {
        // Originals with a shared key are stored, and remembered, under another key than that of the flight.
        guard let scans = load.options.sufficientScans, load.source.hooks == nil, load.source.sharedKey == nil,
            !load.options.wantsResponse
        else { return nil }
        switch configuration.dataCachePolicy {
        case .storeEncodedImages, .storeNothing: break
        case .storeReused:
            // A near cache stores whatever is fetched. Without a flight, nothing is known of earlier fetches.
            guard configuration.dataCache == nil, let leader, leader.token != nil, !leader.isUnlocked,
                leader.stale == nil, leader.wasFetched == false
            else { return nil }
        case .automatic, .storeOriginalData, .storeAll: return nil
        }
        let key = OriginalLoadKey(load.source)
        let arrival = SufficientScans.Arrival(scans)
        return { [reuse, previews] bytes in
            switch arrival.need(of: bytes) {
            case .all: .all
            case .more: .more
            // The address decides who may use the results.
            case .nothing:
                reuse.contains(key) || previews.contains(key) || load.metrics.timings?.remoteAddress == nil
                    ? .more : .nothing
            }
        }
    }

    /// The request after the delegate's `willLoadData`.
    private func prepared(_ request: URLRequest, _ load: Load) async throws(Error) -> URLRequest {
        let source = load.source
        guard let hooks = source.hooks else { return request }
        let prepared: URLRequest
        do {
            prepared = try await hooks.willLoadData(request)
        } catch is CancellationError {
            throw Error(.cancelled, "The request for \(source) was cancelled.", stage: .load)
        } catch {
            throw Error(
                .dataLoadingFailed,
                "willLoadData failed for \(source): \(error)",
                stage: .load,
                underlying: error
            )
        }
        // The work item is checked too: it ends as soon as its last subscriber leaves, its tasks are cancelled after
        // that.
        if Task.isCancelled || !load.context.isOpen {
            throw Error(.cancelled, "The request for \(source) was cancelled.", stage: .load)
        }
        if let url = prepared.url, url != request.url {
            do throws(Error) { try configuration.urlPolicy.check(url) } catch {
                throw error.at(.load, of: source.request)
            }
        }
        return prepared
    }

    /// Stores the beginning of this download; nil if it must not be stored.
    private func partialStore(of request: URLRequest, _ load: Load) -> PartialDownloadStore? {
        guard configuration.isResumableDataEnabled, configuration.dataCachePolicy != .storeNothing,
            let cache = configuration.resumableDataCache ?? configuration.dataCache,
            load.source.cachePolicy.allowsStorage,
            !load.source.request.options.contains(.disableDiskCacheWrites)
        else { return nil }
        let isObject = request.url?.scheme?.lowercased() == "s3"
        return PartialDownloadStore(
            cache,
            load.source.key,
            interval: configuration.resumableDataInterval,
            copies: copies,
            address: { [self] in address(of: request, load) },
            isPermitted: { [origins = configuration.origins] address in
                // Parts of objects that earlier versions stored have an address, and others the store.
                isObject && IPAddress(address) != nil || origins.permits(address)
            },
            logger: configuration.logger
        )
    }

    /// Whether the beginning of an interrupted download is of another representation than an entry. False without an
    /// entry, as nothing is revalidated then.
    func hasNewerPart(than entry: CachedData?, _ request: URLRequest, _ load: Load) async -> Bool {
        guard let metadata = entry?.metadata, let part = await partialStore(of: request, load)?.load() else {
            return false
        }
        return part.validator != metadata.etag && part.validator != metadata.lastModified
    }

    /// Beginning of an interrupted download. A conditional request is never sent for a range.
    private func partial(for request: URLRequest, _ partials: PartialDownloadStore?, _ load: Load) async
        -> ResumableData?
    {
        guard load.options.readsCaches, !request.isConditional else { return nil }
        guard let found = await partials?.load() else { return nil }
        let spool = spool
        if found.data.count <= spool.threshold { return found }
        // Writing blocks, hence the file thread. If this is cancelled, the fetch that follows ends by itself.
        let spooled = try? await onFileThread { () throws(Error) in found.spooled(spool) }
        return spooled ?? found
    }
}

/// Decides when the bytes of an unfinished download are inspected: immediately, and then at intervals.
final class PartSchedule: Sendable {
    private let interval: Duration
    private let last = Mutex<ContinuousClock.Instant?>(nil)

    init(interval: Duration) { self.interval = interval }

    var isDue: Bool { last.withLock { $0.map { $0.duration(to: .now) >= interval } ?? true } }

    /// - Returns: whether an inspection was due; if so, the next interval starts.
    func take() -> Bool {
        last.withLock { last in
            if let last, last.duration(to: .now) < interval { return false }
            last = .now
            return true
        }
    }
}
