internal import Foundation
internal import FoundationNetworking
internal import Logging

/// Settles renditions that no other task of this process makes: finds them in the caches, waits for another process, or
/// makes them.
///
/// Separate from the pipeline, as background revalidation must not keep the pipeline alive.
final class RenditionProducer: Sendable {
    typealias Error = ImageError
    typealias Results = [CacheKey: Result<RenditionResponse, Error>]

    /// Source, options and metrics of one request for renditions.
    struct Request: Sendable {
        let source: Source
        let options: RenditionRequestOptions
        let metrics: PipelineMetrics
        /// Work item that needs the renditions and determines their priority; nil for background revalidation.
        let context: WorkContext<Results>?
    }

    let configuration: ImagePipeline.Configuration
    private let originals: OriginalLoader
    private let renderer: Renderer
    private let renders: RenderQueue
    private let revalidator: BackgroundRevalidator

    /// - Parameter renders: slots for the renderer's threads.
    init(
        _ configuration: ImagePipeline.Configuration,
        _ originals: OriginalLoader,
        _ renderer: Renderer,
        _ renders: RenderQueue,
        _ revalidator: BackgroundRevalidator
    ) {
        self.configuration = configuration
        self.originals = originals
        self.renderer = renderer
        self.renders = renders
        self.revalidator = revalidator
    }

    func produce(_ open: [(key: CacheKey, rendition: Rendition)], _ request: Request) async -> Results {
        let deadline = ContinuousClock.now + configuration.waitBudget
        var results: Results = [:]
        var open = open
        var awaited: [SingleFlight.Waiter] = []
        for _ in 0..<ImagePipeline.roundLimit(within: configuration.waitBudget) where !open.isEmpty {
            let result = await lookUp(for: open, after: awaited, request)
            results.merge(result.results) { _, new in new }
            if !result.dropped.isEmpty {
                await request.source.flights.fail(
                    result.dropped,
                    error: Error(.cancelled, "A stale entry answered the request.")
                )
            }
            await refresh(result.revalidating, request)
            if !result.pending.isEmpty { results.merge(await make(result.pending, request)) { _, new in new } }
            open.removeAll { results[$0.key] != nil }
            awaited = result.awaited
            if ContinuousClock.now >= deadline || Task.isCancelled {
                for flight in awaited { await request.source.flights.abandon(flight) }
                break
            }
            for flight in awaited {
                // Each wait may take seconds, and there may be many.
                guard ContinuousClock.now < deadline else {
                    await request.source.flights.abandon(flight)
                    continue
                }
                request.metrics.update { $0.waits += 1 }
                await request.source.flights.wait(for: flight)
            }
        }
        for (key, _) in open {
            results[key] = .failure(
                Task.isCancelled
                    ? Error(.cancelled, "The request for \(request.source) was cancelled.")
                    : Error(.waitTimedOut, "Another request took too long to render \(request.source); try later.")
            )
        }
        return results
    }

    // MARK: - Leading

    /// Remakes renditions in the background that were served stale.
    private func refresh(_ revalidating: [PendingRendition], _ request: Request) async {
        if revalidating.isEmpty { return }
        let spans = request.metrics.spans
        let start = revalidator.start(revalidating.map { $0.leader.key }) { [self] keys in
            let metrics = PipelineMetrics(spans: spans)
            let request = Request(source: request.source, options: request.options, metrics: metrics, context: nil)
            let results = await make(revalidating.filter { keys.contains($0.leader.key) }, request)
            for case .failure(let error) in results.values {
                configuration.logger.debug("a stale rendition was not revalidated", metadata: ["error": "\(error)"])
            }
            if case .remote(let urlRequest) = request.source.location, let url = urlRequest.url {
                configuration.didRefresh(url, metrics.counts)
            }
        }
        request.metrics.update { $0.dropped += start.rejected.count }
        let dropped = revalidating.map { $0.leader }.filter { !start.started.contains($0.key) }
        if dropped.isEmpty { return }
        await request.source.flights.fail(
            dropped,
            error: Error(.cancelled, "Too many entries are being revalidated already.")
        )
    }

    /// Makes renditions, and ends their flights in every case.
    ///
    /// - Parameter needsWhole: whether the first bytes of the original have turned out not to be enough.
    private func make(
        _ pending: [PendingRendition],
        _ request: Request,
        needsWhole: Bool = false
    ) async -> Results {
        let source = request.source
        do throws(Error) {
            let storesOriginal = configuration.dataCachePolicy.storesOriginals && request.options.allowsStorage
            var options = OriginalRequestOptions(source.request, storesOriginal: storesOriginal)
            options.confirming = Self.confirmable(pending)
            if !needsWhole { options.sufficientScans = renderer.sufficientScans(for: pending.map(\.rendition)) }
            let original = try await original(options, request)
            func isUnchanged(_ pending: PendingRendition) -> Bool {
                if original.confirmsRenditions { return true }
                // One that was made of a body that was cut short is made anew from the bytes that are here now.
                let stale = pending.leader.stale
                return original.isSource(of: stale) && !RenderNotes.nameDamage(stale?.metadata.notes)
            }
            let new = pending.filter { !isUnchanged($0) }
            let images: [EncodedImage]
            do throws(Error) {
                images = try await request.metrics.notingWaits(for: .decode) { () async throws(Error) in
                    try await render(new, original, request).map { $0.ofSource(original.wholeLength) }
                }
            } catch {
                await original.isStored()
                if original.wholeLength != nil, [.corruptImage, .unsupportedFormat].contains(error.code) {
                    return await make(pending, request, needsWhole: true)
                }
                // Possibly a truncated body of undeclared length: discard it, so that the origin is asked again.
                if error.code == .corruptImage {
                    for case let key? in [source.key, source.sharedKey] { await source.flights.discard(key) }
                }
                throw error
            }
            // The original was being stored during the render. Its flight, and any wait for it, ends when that is done;
            // this request need not wait for that.
            await originals.uploads.adopt(original)
            note(zip(new, images).map { (rendition: $0.rendition, image: $1) }, request)
            let old = pending.filter(isUnchanged)
            return await finish(Array(zip(new, images)), old, original, request)
        } catch {
            return await fail(pending, error, request)
        }
    }

    /// Metadata of renditions that the origin may confirm without sending their original: all have the same validators.
    ///
    /// - Returns: nil if one of the renditions is missing or of a damaged original, or has no validator or others.
    private static func confirmable(_ pending: [PendingRendition]) -> CachedData.Metadata? {
        guard var first = pending.first?.leader.stale?.metadata, first.etag != nil || first.lastModified != nil
        else { return nil }
        let areAlike = pending.allSatisfy { pending in
            let metadata = pending.leader.stale?.metadata
            // A body that was cut short without notice would be confirmed for ever.
            return metadata?.etag == first.etag && metadata?.lastModified == first.lastModified
                && metadata?.responder == first.responder && !RenderNotes.nameDamage(metadata?.notes)
        }
        // As the metadata of an original, which has no size.
        (first.width, first.height) = (nil, nil)
        return areAlike ? first : nil
    }

    /// The original from a cache or the origin. If the cache entry of that name is an encoded image, the origin is
    /// asked, as renditions must not be made from re-encoded images.
    private func original(_ options: OriginalRequestOptions, _ request: Request) async throws(Error) -> Original {
        let found = try await originals.load(request.source, options, request.metrics, for: request.context)
        guard found.metadata?.isOfEncodedImage == true else { return found }
        var anew = options
        (anew.readsCaches, anew.storesOriginal) = (false, false)
        return try await originals.load(request.source, anew, request.metrics, for: request.context)
    }

    /// Counts renditions by engine. Images that planes could not decode were decoded twice, which is logged once.
    private func note(_ images: [(rendition: Rendition, image: EncodedImage)], _ request: Request) {
        request.metrics.update { $0.addRenders(images) }
        let left = images.count { $0.image.maker == .libvipsForPlanes }
        if left == 0 { return }
        configuration.logger.debug(
            "the planes engine could not decode an image; libvips rendered it",
            metadata: ["source": "\(request.source)", "renditions": "\(left)"]
        )
    }

    private func fail(_ pending: [PendingRendition], _ failure: Error, _ request: Request) async -> Results {
        let error = failure.asked(with: request.source.sentFields).met(under: configuration)
        await request.source.flights.fail(pending.filter(\.isFlight).map(\.leader), error: error)
        var results: Results = [:]
        for pending in pending {
            let (leader, stale) = (pending.leader, pending.leader.stale)
            if let stale, stale.mayServe(after: error), !request.options.policy.forbids(stale, at: Date()) {
                results[leader.key] = .success(found(stale, pending.rendition, request.metrics))
            } else {
                results[leader.key] = .failure(error)
            }
            if pending.isFlight { continue }
            // The origin's answer is definitive: discard the stale entry here, as there is no flight that does so. Not
            // after the failure is remembered, which would be forgotten with it.
            if stale != nil, error.supersedesEntry { await request.source.flights.discard(leader.key) }
            if request.options.allowsStorage { await request.source.flights.remember(error, for: leader.key) }
        }
        return results
    }

    private func render(
        _ new: [PendingRendition],
        _ original: Original,
        _ request: Request
    ) async throws(Error) -> [EncodedImage] {
        if new.isEmpty { return [] }
        let imageRequest = request.source.request
        do throws(Error) {
            return try await request.metrics.inSpan(.render) { () async throws(Error) -> [EncodedImage] in
                try await renderer.render(
                    new.map { $0.rendition },
                    from: original.data,
                    context: request.source.description,
                    slot: RenderSlot(queue: renders, context: request.context, priority: imageRequest.priority)
                )
            } facts: { (result: Result<[EncodedImage], Error>) in
                var facts = SpanFacts(result) { facts, images in
                    facts.bytes = images.reduce(0) { $0 + $1.data.count }
                }
                facts.formats = new.map { $0.rendition.format.rawValue }
                return facts
            }
        } catch {
            var error = error.about(imageRequest, at: error.stageOfRendering)
                .with(original.response, original.data, type: original.metadata?.type)
            error.address = original.address
            // Remembered no longer than the bytes may be reused.
            if let metadata = original.currentMetadata(at: configuration.date()) {
                let isCached = original.response == nil
                if isCached { error.reuse = Error.Reuse(lifetime: metadata.lifetime, vary: metadata.vary) }
            } else {
                error.reuse = Error.Reuse(lifetime: 0)
            }
            throw error
        }
    }

    /// Stores new renditions, and prolongs the lifetime of stale ones if the original is unchanged.
    private func finish(
        _ made: [(PendingRendition, EncodedImage)],
        _ old: [PendingRendition],
        _ original: Original,
        _ request: Request
    ) async -> Results {
        let isStored = configuration.dataCachePolicy.storesRenditions && request.options.allowsStorage
        // The render has waited: freshness counts from the response of the origin.
        let now = configuration.date()
        let present = original.currentMetadata(at: now)
        let metadata = isStored ? present : nil
        var results: Results = [:]
        var entries: [(pending: PendingRendition, entry: CachedData?)] = []
        for (pending, image) in made {
            let entry = metadata.map { CachedData(image, pending.rendition, of: $0, at: now) }
            entries.append((pending, entry))
            results[pending.leader.key] = .success(RenditionResponse(pending.rendition, image, of: present))
        }
        for pending in old {
            guard let cached = pending.leader.stale else { continue }
            request.metrics.update {
                $0.cacheHits += 1
                $0.addHit(in: cached.layer)
            }
            entries.append((pending, metadata.map { cached.prolonged(by: $0, at: now) }))
            // The origin's last response has no lifetime, or must not be stored: that of the entry is over.
            let response = RenditionResponse(pending.rendition, cached, of: present)
            results[pending.leader.key] = .success(present == nil ? response.withoutLifetime : response)
        }
        let refused = await store(entries, request.source.flights, isForbidden: isStored && present == nil)
        results.merge(await newer(than: refused, request)) { _, newer in newer }
        return results
    }

    /// - Parameter isForbidden: whether the origin's response must not be stored, though the request allows that.
    /// - Returns: entries that the caches did not accept.
    private func store(
        _ entries: [(pending: PendingRendition, entry: CachedData?)],
        _ flights: any SingleFlightCoordinating,
        isForbidden: Bool
    ) async -> [(pending: PendingRendition, entry: CachedData)] {
        let stored = await flights.finish(entries.filter(\.pending.isFlight).map { ($0.pending.leader, $0.entry) })
        var refused: [(PendingRendition, CachedData)] = []
        for (pending, entry) in entries {
            guard let entry else {
                // The end of a flight removes an entry that its origin no longer allows. The others are removed here.
                if isForbidden, !pending.isFlight, pending.leader.stale != nil {
                    await flights.discard(pending.leader.key)
                }
                continue
            }
            let isStored =
                pending.isFlight
                ? stored.contains(pending.leader.key) : await flights.replace(entry, for: pending.leader.key)
            // One with a checksum is the present one itself, with other metadata.
            if !isStored, entry.checksum == nil, entry.metadata.fetched != nil { refused.append((pending, entry)) }
        }
        return refused
    }

    /// Results in place of those that the cache refused because it has newer ones: a job that began before the original
    /// was refreshed must not deliver the older image after the newer one.
    private func newer(
        than refused: [(pending: PendingRendition, entry: CachedData)],
        _ request: Request
    ) async -> Results {
        if refused.isEmpty { return [:] }
        let present = await request.source.flights.lookUpStale(refused.map(\.pending.leader.key))
        var results: Results = [:]
        for ((pending, entry), present) in zip(refused, present) {
            guard let present, let fetched = present.metadata.fetched, fetched > entry.metadata.fetched ?? fetched
            else { continue }
            request.metrics.update { $0.addHit(in: present.layer) }
            results[pending.leader.key] = .success(RenditionResponse(pending.rendition, present))
        }
        return results
    }
}

extension EncodedImage {
    /// The image with the length of its whole source, of which only the first bytes were there; itself if nil.
    fileprivate func ofSource(_ length: Int?) -> EncodedImage {
        guard let length else { return self }
        var image = self
        image.facts?.bytes = length
        return image
    }
}
