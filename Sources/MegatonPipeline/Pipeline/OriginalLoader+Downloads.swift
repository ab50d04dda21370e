internal import Foundation
internal import FoundationNetworking

// Downloads that go on where an earlier one was cut off, here or in another process that shares the cache:
//
//   find what is kept ─ add Range and If-Range ─ willLoadData ─ gate ─ load ─┬─ 206: the rest ──► whole: forget it
//                                 ▲                                          ├─ 200: all of it ─► whole: forget it
//                                 └──────── once, without a range ◄── 416 ───┤
//                                                                            └─ cut off: keep what has come
extension OriginalLoader {
    /// - Parameter hidden: what the request showed beyond what its key tells.
    typealias Loaded = (data: Data, response: URLResponse?, hidden: HiddenFields)

    /// What keeps the beginning of this download; nil where nothing is to be kept of it.
    func keeping(of request: URLRequest, _ load: Load) -> PartialKeeping? {
        guard configuration.isResumableDataEnabled, configuration.dataCachePolicy != .storeNothing,
            let cache = configuration.resumableDataCache ?? configuration.dataCache,
            load.source.cachePolicy.mayKeep,
            !load.source.request.options.contains(.disableDiskCacheWrites)
        else { return nil }
        return PartialKeeping(
            cache,
            load.source.key,
            interval: configuration.resumableDataInterval,
            copies: copies,
            logger: configuration.logger
        )
    }

    /// What an earlier download has left. Who asks whether something else has changed asks for no part.
    func partial(for request: URLRequest, _ keeping: PartialKeeping?, _ load: Load) async -> ResumableData? {
        guard load.wish.readsCaches, !request.isConditional else { return nil }
        guard let found = await keeping?.find() else { return nil }
        let spool = spool
        if found.data.count <= spool.threshold { return found }
        // On a file thread, as writing blocks. Cancelled: the fetch that follows ends by itself.
        let spooled = try? await onFileThread { () throws(Error) in found.spooled(spool) }
        return spooled ?? found
    }

    /// Loads all, or the rest, in which case the answer is as one to all would have been.
    func download(
        _ request: URLRequest,
        resuming partial: ResumableData?,
        _ keeping: PartialKeeping?,
        _ load: Load
    ) async throws(Error) -> Loaded {
        let limits = ResumableData.Limits(most: limit)
        var download = ResumableDownload(request, resuming: partial, limits: limits, spool: spool)
        let sent = try await prepared(download.request, load)
        // RFC 9111 section 3.5: what the delegate has just added counts too.
        download.hidden = HiddenFields(sent: sent, known: download.request, scope: load.source.request.credentialScope)
        switch try await ask(download, as: sent, keeping, load) {
        case .done(let data, let response):
            await keeping?.end(nil)
            return (data, response, download.hidden)
        case .again:
            await keeping?.end(nil)
            // Without anything to resume it does not come to this again.
            return try await self.download(request, resuming: nil, keeping, load)
        case .failed(let error, let kept):
            await keeping?.end(kept)
            throw error.asked(with: request.allHTTPHeaderFields ?? [:], download.hidden)
        }
    }

    /// Asks the origin if the gate lets us, and tells the gate how it went.
    private func ask(
        _ download: ResumableDownload,
        as request: URLRequest,
        _ keeping: PartialKeeping?,
        _ load: Load
    ) async throws(Error) -> ResumableDownload.Outcome {
        guard let url = request.url else { throw Error(.invalidURL, "A request without a URL cannot be sent.") }
        let loader = load.source.hooks?.dataLoader() ?? configuration.dataLoader
        let pass = try await configuration.originGate.enter(url)
        let outcome = await load.metrics.timing(\.fetching) {
            await loader.attempt(download, as: request, limit: limit, watch: watch(keeping, load))
        }
        if !isRefused(outcome, load) { load.metrics.update { $0.originFetches += 1 } }
        if case .failed(let error, _) = outcome {
            await configuration.originGate.leave(pass, OriginOutcome(error))
        } else {
            await configuration.originGate.leave(pass, .answered)
        }
        return outcome
    }

    /// Whether no origin was asked, as a rule of our own forbids the address or the source.
    private func isRefused(_ outcome: ResumableDownload.Outcome, _ load: Load) -> Bool {
        guard case .failed(let error, _) = outcome, error.status == nil,
            [.forbidden, .credentialMissing, .invalidURL].contains(error.code)
        else { return false }
        // A redirect that leads to a forbidden address has cost a fetch.
        guard let timings = load.metrics.timings else { return true }
        return timings.connects == 0 && timings.redirects == 0
    }

    private func watch(_ keeping: PartialKeeping?, _ load: Load) -> BodyWatch {
        let schedule = PartSchedule(interval: configuration.progressiveDecodingInterval)
        let key = OriginalLoadKey(load.source)
        let wantsPreview: @Sendable () -> Bool = { [previews] in schedule.isDue && previews.contains(key) }
        return BodyWatch(
            onProgress: { completed, total in load.context.send(completed: completed, total: total) },
            wantsPart: { keeping?.isDue == true || wantsPreview() },
            onPart: { download in
                if let keeping, keeping.isDue { keeping.checkpoint(download) }
                if wantsPreview(), schedule.take() {
                    let original = Original(data: download.body, metadata: nil, response: download.response)
                    load.context.send(partial: original)
                }
            },
            onTimings: { load.metrics.set($0) }
        )
    }

    /// The request as the delegate wants it to be sent.
    private func prepared(_ request: URLRequest, _ load: Load) async throws(Error) -> URLRequest {
        let source = load.source
        guard let hooks = source.hooks else { return request }
        let prepared: URLRequest
        do {
            prepared = try await hooks.willLoadData(request)
        } catch is CancellationError {
            throw Error(.cancelled, "The request for \(source) was cancelled.", stage: .load)
        } catch {
            throw Error(.dataLoadingFailed, "willLoadData for \(source): \(error)", stage: .load, underlying: error)
        }
        // Asked of the work too: it ends at once where the last one leaves, and its tasks hear of that in turn.
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
}
