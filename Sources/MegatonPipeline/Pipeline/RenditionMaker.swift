internal import Foundation
internal import FoundationNetworking
internal import Logging

/// Settles renditions that nobody else in this process works on: finds them, waits for them or makes them.
///
/// Apart from the pipeline, as what is refreshed behind its answers must not keep it alive.
final class RenditionMaker: Sendable {
    typealias Error = ImagePipeline.Error
    typealias Settled = [CacheKey: Result<RenditionResponse, Error>]
    /// A rendition whose flight is ours.
    typealias Led = (lead: FlightLead, rendition: Rendition)

    /// What one look at the coordinator has brought.
    private struct Look {
        var settled: Settled = [:]
        var led: [Led] = []
        /// Served already, to be made afterwards.
        var behind: [Led] = []
        var awaited: [FlightWait] = []
    }

    private let configuration: ImagePipeline.Configuration
    private let originals: OriginalLoader
    private let renderer: Renderer
    private let refreshes: Refreshes

    init(
        _ configuration: ImagePipeline.Configuration,
        _ originals: OriginalLoader,
        _ renderer: Renderer,
        _ refreshes: Refreshes
    ) {
        self.configuration = configuration
        self.originals = originals
        self.renderer = renderer
        self.refreshes = refreshes
    }

    func settle(
        _ open: [(key: CacheKey, rendition: Rendition)],
        _ source: Source,
        _ metrics: PipelineMetrics
    ) async -> Settled {
        let deadline = ContinuousClock.now + configuration.waitBudget
        var settled: Settled = [:]
        var open = open
        var awaited: [FlightWait] = []
        for _ in 0..<ImagePipeline.roundLimit where !open.isEmpty {
            let look = await look(for: open, after: awaited, metrics)
            settled.merge(look.settled) { _, new in new }
            await refresh(look.behind, source)
            if !look.led.isEmpty { settled.merge(await make(look.led, source, metrics)) { _, new in new } }
            open.removeAll { settled[$0.key] != nil }
            awaited = look.awaited
            if ContinuousClock.now >= deadline || Task.isCancelled {
                for flight in awaited { await configuration.flights.abandon(flight) }
                break
            }
            for flight in awaited {
                metrics.update { $0.waits += 1 }
                await configuration.flights.wait(for: flight)
            }
        }
        for (key, _) in open {
            settled[key] = .failure(
                Task.isCancelled
                    ? Error(.cancelled, "The request for \(source) was cancelled.")
                    : Error(.waitTimedOut, "\(source) was being made elsewhere for too long; try later.")
            )
        }
        return settled
    }

    private func look(
        for open: [(key: CacheKey, rendition: Rendition)],
        after awaited: [FlightWait],
        _ metrics: PipelineMetrics
    ) async -> Look {
        var look = Look()
        let decisions = await configuration.flights.begin(open.map(\.key), after: awaited)
        for (decision, entry) in zip(decisions, open) {
            switch decision {
            case .hit(let cached):
                metrics.update { $0.cacheHits += 1 }
                look.settled[entry.key] = .success(RenditionResponse(entry.rendition, cached))
            case .stale(let cached, let lead):
                look.settled[entry.key] = .success(stale(cached, entry.rendition, metrics))
                if let lead { look.behind.append((lead, entry.rendition)) }
            case .failed(let error): look.settled[entry.key] = .failure(error)
            case .lead(let lead): look.led.append((lead, entry.rendition))
            case .wait(let flight): look.awaited.append(flight)
            }
        }
        return look
    }

    private func stale(_ cached: CachedData, _ rendition: Rendition, _ metrics: PipelineMetrics) -> RenditionResponse {
        metrics.update {
            $0.cacheHits += 1
            $0.staleHits += 1
        }
        return RenditionResponse(rendition, cached)
    }

    // MARK: - Leading

    /// Makes what has been served stale, behind the answer.
    private func refresh(_ behind: [Led], _ source: Source) async {
        if behind.isEmpty { return }
        let started = refreshes.start(behind.map { $0.lead.key }) { [self] keys in
            let metrics = PipelineMetrics()
            let settled = await make(behind.filter { keys.contains($0.lead.key) }, source, metrics)
            for case .failure(let error) in settled.values {
                configuration.logger.debug("a stale rendition was not refreshed", metadata: ["error": "\(error)"])
            }
            if case .remote(let request) = source.place, let url = request.url {
                configuration.didRefresh(url, metrics.counts)
            }
        }
        let dropped = behind.map { $0.lead }.filter { !started.contains($0.key) }
        if dropped.isEmpty { return }
        await configuration.flights.fail(dropped, error: Error(.cancelled, "Too much is being refreshed already."))
    }

    /// Makes renditions whose flights are ours, and ends the flights whatever happens.
    private func make(_ led: [Led], _ source: Source, _ metrics: PipelineMetrics) async -> Settled {
        do throws(Error) {
            var wish = OriginalWish(keeps: configuration.dataCachePolicy.keepsOriginals)
            wish.priority = source.request.priority
            let original = try await originals.original(source, wish, metrics)
            let new = led.filter { !original.isSource(of: $0.lead.stale) }
            let images: [EncodedImage]
            do throws(Error) {
                images = try await render(new, original, source)
            } catch {
                await original.isStored()
                // Cut off without a length that would have told, perhaps: the next one is to ask the origin.
                if error.code == .corruptImage { await configuration.flights.discard(source.key) }
                throw error
            }
            // It went to the cache while we rendered: whoever waits for it is woken by the end of that.
            await original.isStored()
            metrics.update { $0.renders += images.count }
            let old = led.filter { original.isSource(of: $0.lead.stale) }
            return await finish(Array(zip(new, images)), old, original, metrics)
        } catch {
            await configuration.flights.fail(led.map { $0.lead }, error: error)
            var settled: Settled = [:]
            for (lead, rendition) in led {
                if let cached = lead.stale, cached.mayServe(after: error) {
                    settled[lead.key] = .success(stale(cached, rendition, metrics))
                } else {
                    settled[lead.key] = .failure(error)
                }
            }
            return settled
        }
    }

    private func render(_ new: [Led], _ original: Original, _ source: Source) async throws(Error) -> [EncodedImage] {
        if new.isEmpty { return [] }
        return try await renderer.render(
            new.map { $0.rendition },
            from: original.data,
            context: source.description
        )
    }

    /// Keeps what was made, and prolongs what need not be made again as its original is still the same.
    private func finish(
        _ made: [(Led, EncodedImage)],
        _ old: [Led],
        _ original: Original,
        _ metrics: PipelineMetrics
    ) async -> Settled {
        let metadata = configuration.dataCachePolicy.keepsRenditions ? original.metadata : nil
        var settled: Settled = [:]
        var entries: [(lead: FlightLead, entry: CachedData?)] = []
        for ((lead, rendition), image) in made {
            let entry = metadata.map { CachedData(image, rendition.format, of: $0) }
            entries.append((lead: lead, entry: entry))
            settled[lead.key] = .success(RenditionResponse(rendition, image))
        }
        for (lead, rendition) in old {
            guard let cached = lead.stale else { continue }
            metrics.update { $0.cacheHits += 1 }
            entries.append((lead: lead, entry: metadata.map { cached.prolonged(by: $0) }))
            settled[lead.key] = .success(RenditionResponse(rendition, cached))
        }
        await configuration.flights.finish(entries)
        return settled
    }
}
