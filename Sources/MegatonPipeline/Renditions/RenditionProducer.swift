internal import Foundation
internal import FoundationNetworking
internal import Logging

/// Settles renditions that no other task of this process makes: finds them in the caches, waits for another process, or
/// makes them.
///
/// Separate from the pipeline, as background revalidation must not keep the pipeline alive.
final class RenditionProducer: Sendable {
    typealias Error = ImageError
    typealias Settled = [CacheKey: Result<RenditionResponse, Error>]

    /// Source, options and metrics of one request for renditions.
    struct Request: Sendable {
        let source: Source
        let wish: RenditionRequestOptions
        let metrics: PipelineMetrics
        /// Work item that needs the renditions and determines their priority; nil for background revalidation.
        let context: WorkContext<Settled>?
    }

    let configuration: ImagePipeline.Configuration
    private let originals: OriginalLoader
    private let renderer: Renderer
    private let renders: TaskQueue
    private let refreshes: BackgroundRevalidator

    /// - Parameter renders: queue for the renderer's threads.
    init(
        _ configuration: ImagePipeline.Configuration,
        _ originals: OriginalLoader,
        _ renderer: Renderer,
        _ renders: TaskQueue,
        _ refreshes: BackgroundRevalidator
    ) {
        self.configuration = configuration
        self.originals = originals
        self.renderer = renderer
        self.renders = renders
        self.refreshes = refreshes
    }

    func settle(_ open: [(key: CacheKey, rendition: Rendition)], _ request: Request) async -> Settled {
        let deadline = ContinuousClock.now + configuration.waitBudget
        var settled: Settled = [:]
        var open = open
        var awaited: [SingleFlight.Waiter] = []
        for _ in 0..<ImagePipeline.roundLimit where !open.isEmpty {
            let look = await look(for: open, after: awaited, request)
            settled.merge(look.settled) { _, new in new }
            if !look.dropped.isEmpty {
                await request.source.flights.fail(look.dropped, error: Error(.cancelled, "A stale entry was enough."))
            }
            await refresh(look.behind, request)
            if !look.led.isEmpty { settled.merge(await make(look.led, request)) { _, new in new } }
            open.removeAll { settled[$0.key] != nil }
            awaited = look.awaited
            if ContinuousClock.now >= deadline || Task.isCancelled {
                for flight in awaited { await request.source.flights.abandon(flight) }
                break
            }
            for flight in awaited {
                request.metrics.update { $0.waits += 1 }
                await request.source.flights.wait(for: flight)
            }
        }
        for (key, _) in open {
            settled[key] = .failure(
                Task.isCancelled
                    ? Error(.cancelled, "The request for \(request.source) was cancelled.")
                    : Error(.waitTimedOut, "\(request.source) was being made elsewhere for too long; try later.")
            )
        }
        return settled
    }

    // MARK: - Leading

    /// Remakes renditions in the background that were served stale.
    private func refresh(_ behind: [PendingRendition], _ request: Request) async {
        if behind.isEmpty { return }
        let start = refreshes.start(behind.map { $0.lead.key }) { [self] keys in
            let metrics = PipelineMetrics()
            let request = Request(source: request.source, wish: request.wish, metrics: metrics, context: nil)
            let settled = await make(behind.filter { keys.contains($0.lead.key) }, request)
            for case .failure(let error) in settled.values {
                configuration.logger.debug("a stale rendition was not refreshed", metadata: ["error": "\(error)"])
            }
            if case .remote(let urlRequest) = request.source.place, let url = urlRequest.url {
                configuration.didRefresh(url, metrics.counts)
            }
        }
        request.metrics.update { $0.dropped += start.dropped.count }
        let dropped = behind.map { $0.lead }.filter { !start.begun.contains($0.key) }
        if dropped.isEmpty { return }
        await request.source.flights.fail(dropped, error: Error(.cancelled, "Too much is being refreshed already."))
    }

    /// Makes renditions, and ends their flights in every case.
    private func make(_ led: [PendingRendition], _ request: Request) async -> Settled {
        let source = request.source
        do throws(Error) {
            let keeps = configuration.dataCachePolicy.keepsOriginals && request.wish.keeps
            let original = try await original(OriginalRequestOptions(source.request, keeps: keeps), request)
            let new = led.filter { !original.isSource(of: $0.lead.stale) }
            let images: [EncodedImage]
            do throws(Error) {
                images = try await request.metrics.notingWaits(for: .decode) { () async throws(Error) in
                    try await render(new, original, request)
                }
            } catch {
                await original.isStored()
                // Possibly a truncated body of undeclared length: discard it, so that the origin is asked again.
                if error.code == .corruptImage { await request.source.flights.discard(source.key) }
                throw error
            }
            // The original was being stored during the render. Its flight, and any wait for it, ends when that is done.
            await original.isStored()
            note(images, request)
            let old = led.filter { original.isSource(of: $0.lead.stale) }
            return await finish(Array(zip(new, images)), old, original, request)
        } catch {
            return await fail(led, error, request)
        }
    }

    /// The original from a cache or the origin. If the cache entry of that name is an encoded image, the origin is
    /// asked, as renditions must not be made from re-encoded images.
    private func original(_ wish: OriginalRequestOptions, _ request: Request) async throws(Error) -> Original {
        let found = try await originals.original(request.source, wish, request.metrics, for: request.context)
        guard found.metadata?.isOfEncodedImage == true else { return found }
        var anew = wish
        (anew.readsCaches, anew.keeps) = (false, false)
        return try await originals.original(request.source, anew, request.metrics, for: request.context)
    }

    /// Counts renditions by engine. Images that planes could not decode were decoded twice, which is logged once.
    private func note(_ images: [EncodedImage], _ request: Request) {
        request.metrics.update { $0.addRenders(images) }
        let left = images.count { $0.maker == .libvipsForPlanes }
        if left == 0 { return }
        configuration.logger.debug(
            "planes left a picture to libvips",
            metadata: ["source": "\(request.source)", "renditions": "\(left)"]
        )
    }

    private func fail(_ led: [PendingRendition], _ failure: Error, _ request: Request) async -> Settled {
        let error = failure.asked(with: request.source.sentFields).met(under: configuration)
        await request.source.flights.fail(led.filter(\.isFlight).map(\.lead), error: error)
        var settled: Settled = [:]
        for led in led {
            let (lead, stale) = (led.lead, led.lead.stale)
            if let stale, stale.mayServe(after: error), !request.wish.policy.refuses(stale, at: Date()) {
                settled[lead.key] = .success(found(stale, led.rendition, request.metrics))
            } else {
                settled[lead.key] = .failure(error)
            }
            if !led.isFlight, request.wish.keeps { await request.source.flights.remember(error, for: lead.key) }
            // The origin's answer is definitive: discard the stale entry here, as there is no flight that does so.
            if !led.isFlight, stale != nil, error.supersedesEntry { await request.source.flights.discard(lead.key) }
        }
        return settled
    }

    private func render(
        _ new: [PendingRendition],
        _ original: Original,
        _ request: Request
    ) async throws(Error) -> [EncodedImage] {
        if new.isEmpty { return [] }
        let imageRequest = request.source.request
        do throws(Error) {
            return try await renderer.render(
                new.map { $0.rendition },
                from: original.data,
                context: request.source.description,
                turn: RenderSlot(queue: renders, context: request.context, priority: imageRequest.priority)
            )
        } catch {
            var error = error.about(imageRequest, at: error.stageOfRendering)
                .with(original.response, original.data, type: original.metadata?.type)
            // Remembered no longer than the bytes may be reused.
            if let metadata = original.metadata {
                let isCached = original.response == nil
                if isCached { error.reuse = Error.Reuse(lifetime: metadata.lifetime, vary: metadata.vary) }
            } else {
                error.reuse = Error.Reuse(lifetime: 0)
            }
            throw error
        }
    }

    /// Stores new renditions, and prolongs the lifetime of those whose original is unchanged.
    private func finish(
        _ made: [(PendingRendition, EncodedImage)],
        _ old: [PendingRendition],
        _ original: Original,
        _ request: Request
    ) async -> Settled {
        let keeps = configuration.dataCachePolicy.keepsRenditions && request.wish.keeps
        let metadata = keeps ? original.metadata : nil
        var settled: Settled = [:]
        var entries: [(led: PendingRendition, entry: CachedData?)] = []
        for (led, image) in made {
            let entry = metadata.map { CachedData(image, led.rendition.format, of: $0) }
            entries.append((led, entry))
            settled[led.lead.key] = .success(RenditionResponse(led.rendition, image))
        }
        for led in old {
            guard let cached = led.lead.stale else { continue }
            request.metrics.update {
                $0.cacheHits += 1
                $0.addHit(in: cached.layer)
            }
            entries.append((led, metadata.map { cached.prolonged(by: $0) }))
            settled[led.lead.key] = .success(RenditionResponse(led.rendition, cached))
        }
        await keep(entries, request.source.flights)
        return settled
    }

    private func keep(
        _ entries: [(led: PendingRendition, entry: CachedData?)],
        _ flights: any SingleFlightCoordinating
    ) async {
        await flights.finish(entries.filter(\.led.isFlight).map { ($0.led.lead, $0.entry) })
        for (led, entry) in entries where !led.isFlight {
            if let entry { await flights.keep(entry, for: led.lead.key) }
        }
    }
}
