internal import Foundation
internal import Logging

// How an image comes about:
//
//   memory ─ all data caches in one look: the image, or what its first processors have made ─ the original
//                                                              │                                  │ decode
//                                                              └──── the next processor ◄─────────┘
//
// Each step is work of its own in the graph, so that requests which share a step do it once.
extension ImagePipeline {
    typealias LoadContext = WorkContext<ImageResponse>

    // MARK: - Tasks

    /// Does a task's work, and keeps what it brings.
    func load(_ task: ImageTask) {
        let request = named(task.request)
        let metrics = task.recorder
        let key = OriginalLoadKey(request)
        let claims = [
            // By `automatic` the original is kept where somebody wants nothing but that.
            originals.demand.claim(key, if: configuration.dataCachePolicy.keepsOriginal(of: request)),
            originals.previews.claim(key, if: configuration.isProgressiveDecodingEnabled),
        ]
        let subscription = images.subscribe(
            to: ImageLoadKey(request),
            priority: task.priority,
            job: job(for: request, nil, metrics)
        ) { [self] event, wasCoalesced in
            switch event {
            case .progress(let completed, let total): task.send(ImageTask.Progress(completed: completed, total: total))
            case .value(let response, isCompleted: false):
                let response = response.for(request)
                keep(preview: response)
                task.send(preview: response)
            case .value(let response, isCompleted: true):
                let response = response.for(request)
                keep(response, metrics.counts)
                for claim in claims { claim?.end() }
                metrics.end(with: response, wasCoalesced: wasCoalesced)
                task.finish(.success(response))
            case .failure(let error):
                for claim in claims { claim?.end() }
                metrics.end(with: nil, wasCoalesced: wasCoalesced)
                task.finish(.failure(error.about(request)))
            }
        }
        task.attach(
            ImageTask.Control(
                cancel: {
                    for claim in claims { claim?.end() }
                    subscription?.cancel()
                },
                setPriority: { subscription?.setPriority($0) }
            )
        )
    }

    /// - Parameter found: what the data caches had of this image and of what comes before it; nil if nobody has looked.
    private func job(
        for request: ImageRequest,
        _ found: CacheLook?,
        _ metrics: TaskRecorder
    ) -> WorkJob<ImageResponse> {
        .starting { [self] context in
            // What it is called is known once somebody has looked at the file, which a plain call must not do.
            let isLookedAt = found != nil || !request.isFile
            if isLookedAt, let response = inMemory(request, context) { return context.finish(response) }
            context.run { [self] context throws(Error) in
                if isLookedAt { return try await load(request, found, metrics, context) }
                let request = try await revised(request)
                if let response = inMemory(request, context) { return response }
                return try await load(request, nil, metrics, context)
            }
        }
    }

    /// The answer that is in memory; a preview is shown, and is not the answer.
    private func inMemory(_ request: ImageRequest, _ context: LoadContext) -> ImageResponse? {
        guard let container = answerInMemory(request) else { return nil }
        let response = ImageResponse(container: container, request: request, cacheType: .memory)
        if !container.isPreview { return response }
        context.send(partial: response)
        return nil
    }

    // MARK: - Steps

    private func load(
        _ request: ImageRequest,
        _ known: CacheLook?,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse {
        let found: CacheLook
        if let known { found = known } else { found = await lookUp(request) }
        if let response = try await cached(request, found, metrics, context) { return response }
        if let last = request.processors.last {
            var rest = request
            rest.processors.removeLast()
            let gate = PreviewGate<ImageResponse>()
            defer { gate.end() }  // Where there will be no picture, a preview that is being made is for nobody.
            let input = try await context.value(
                of: images,
                key: ImageLoadKey(rest),
                job: job(for: rest, found, metrics)
            ) { [self] preview in process(preview: preview, last, request, gate, context) }
            gate.end()
            return try await process(input, last, request, metrics, context)
        }
        return try await fetch(request, found, metrics, context)
    }

    /// An image that a data cache had. One whose bytes cannot be decoded is none.
    private func cached(
        _ request: ImageRequest,
        _ found: CacheLook,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse? {
        let key = dataCacheKey(for: request)
        guard let entry = found.entries[key], entry.metadata.matches(request: request.sentFields) else { return nil }
        // The entry is the image itself: it must not be scaled down once more.
        var plain = request
        plain.thumbnail = nil
        return try await decode(entry, key, as: plain, request, metrics, context)
    }

    /// What a data cache had, decoded; nil, and forgotten, where its bytes are no good.
    ///
    /// - Parameter decoded: what the bytes are of, and whether they are to be scaled down.
    private func decode(
        _ entry: CachedData,
        _ key: CacheKey,
        as decoded: ImageRequest,
        _ request: ImageRequest,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse? {
        do throws(Error) {
            let decoding = ImageDecodingContext(request: decoded, data: entry.data, cacheType: .disk)
            let container = try await decode(decoding, metrics, context)
                .made(
                    of: ImageProvenance(
                        entry.metadata,
                        isReencoded: key.kind == .image || entry.metadata.isOfEncodedImage
                    )
                )
            let response = ImageResponse(
                container: container,
                request: request,
                cacheType: .disk,
                cacheLayer: entry.layer
            )
            return try await decompressed(response).toKeep()
        } catch {
            guard error.isOfTheBytes else { throw error }
            configuration.logger.debug(
                "what was kept could not be decoded",
                metadata: ["key": "\(key)", "error": "\(error)"]
            )
            await flights(for: request).discard(key)
            return nil
        }
    }

    private func process(
        _ input: ImageResponse,
        _ processor: any ImageProcessing,
        _ request: ImageRequest,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse {
        let container = try await metrics.measure(.process) { () async throws(Error) in
            try await context.perform(on: renders) { [self] () async throws(Error) in
                try await apply(processor, to: input, request)
            }
        }
        return ImageResponse(
            container: container.made(of: input.container.provenance),
            request: request,
            urlResponse: input.urlResponse,
            cacheType: input.cacheType,
            cacheLayer: input.cacheLayer
        ).toKeep()
    }

    /// Does one step on a render thread, within the limits for results and the time.
    ///
    /// - Parameter cancellation: ends it too, beside the calling task's.
    func apply(
        _ processor: any ImageProcessing,
        to input: ImageResponse,
        _ request: ImageRequest,
        isCompleted: Bool = true,
        until cancellation: RenderCancellation = RenderCancellation()
    ) async throws(Error) -> ImageContainer {
        do throws(Error) {
            return try await renderer.run("\(request)", until: cancellation) { [limits = configuration.renderLimits] in
                let context = ImageProcessingContext(
                    request: request,
                    response: input,
                    isCompleted: isCompleted,
                    bounds: ProcessingBounds(limits, $0)
                )
                do {
                    return try processor.step(on: input.container, context)
                } catch let error as Error {
                    throw error
                } catch {
                    throw Error(.processingFailed, "\(processor.identifier) failed: \(error)", underlying: error)
                }
            }
        } catch {
            throw error.at(.process, of: request)
        }
    }

    // MARK: - Originals

    private func fetch(
        _ request: ImageRequest,
        _ found: CacheLook,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse {
        if case .image(let id, let make) = request.resource {
            if request.options.contains(.returnCacheDataDontLoad) {
                throw Error(.dataMissingInCache, "\(id) is in no cache, and is not to be made.", stage: .load)
            }
            return ImageResponse(container: try await container(id, make, metrics), request: request).toKeep()
        }
        let own = CacheKey.original(of: request)
        // If its bytes were no good, it is forgotten by now.
        let look = found.entries[own] == nil ? found.original : nil
        for case let key? in [own, CacheKey.sharedOriginal(of: request)] {
            // Without changes the original is the image, and has been tried already.
            guard let entry = found.entries[key], request.changesOriginal || key != own,
                entry.metadata.matches(request: request.sentFields)
            else { continue }
            if let kept = try await decode(entry, key, as: request, request, metrics, context) { return kept }
        }
        let previews = PreviewDecoding()
        defer { previews.gate.end() }  // As above.
        let original = try await metrics.measure(.load) { () async throws(Error) -> Original in
            try await self.original(for: request, metrics.counts, context, look) { [self] partial in
                preview(of: partial, request, previews, context)
            }
        }
        previews.gate.end()
        let decoding = ImageDecodingContext(
            request: request,
            data: original.data,
            urlResponse: original.response,
            cacheType: original.isFromCache ? .disk : nil
        )
        let container: ImageContainer
        do throws(Error) {
            container = try await decode(decoding, by: previews.decoder, metrics, context)
        } catch {
            throw error.with(original.response, type: original.metadata?.type)
        }
        let response = ImageResponse(
            container: container.made(
                of: ImageProvenance(
                    original.metadata,
                    isReencoded: original.metadata?.isOfEncodedImage == true
                )
            ),
            request: request,
            urlResponse: original.response,
            cacheType: decoding.cacheType,
            cacheLayer: original.layer
        )
        return try await decompressed(response).toKeep()
    }

    private func container(
        _ id: String,
        _ make: @Sendable () async throws -> ImageContainer,
        _ metrics: TaskRecorder
    ) async throws(Error) -> ImageContainer {
        do {
            return try await make()
        } catch let error as Error {
            throw error
        } catch {
            throw Error(.dataLoadingFailed, "\(id): \(error)", stage: .load, underlying: error)
        }
    }

    /// The bytes, from whichever cache or origin has them.
    ///
    /// - Parameters:
    ///   - context: work that needs them; the tasks behind it say whether they are kept. Progress goes to it.
    ///   - look: at the caches, a moment ago.
    ///   - wantsAnswer: as of `OriginalWish`.
    ///   - onPartial: is told what has come so far, now and then, where some task wants previews.
    func original(
        for request: ImageRequest,
        _ metrics: PipelineMetrics,
        _ context: LoadContext? = nil,
        _ look: OriginalLook? = nil,
        wantsAnswer: Bool = false,
        onPartial: @escaping @Sendable (Original) -> Void = { _ in }
    ) async throws(Error) -> Original {
        let source = try await source(of: request)
        if context != nil, request.isFile, source.key != .original(of: request) {
            throw Error(.incompleteBody, "\(source) changed while it was loaded.", stage: .load)
        }
        let keeps = context == nil && configuration.dataCachePolicy.keepsOriginal(of: request)
        var wish = OriginalWish(request, keeps: keeps)
        wish.wantsAnswer = wantsAnswer
        return try await originals.original(source, wish, metrics, look: look, for: context, onPartial: onPartial)
    }
}

extension ImageRequest {
    var isFile: Bool { url?.scheme?.lowercased() == "file" }

    /// Whether its bytes are at hand: they are never kept as originals.
    var isLocal: Bool { ["file", "data"].contains(url?.scheme?.lowercased()) }

    /// Whether its image is made of the original, by processors or a thumbnail, and is not the original itself.
    var changesOriginal: Bool { !processors.isEmpty || thumbnail != nil }

    /// Whether it has an original at all: an image that a closure makes has none.
    var hasBytes: Bool { if case .image = resource { false } else { true } }

    /// Whether a cache may have its original.
    var hasOriginal: Bool {
        hasBytes && !isLocal
    }
}

extension ImageResponse {
    /// The same for another request that it answers.
    func `for`(_ request: ImageRequest) -> ImageResponse {
        var response = self
        response.request = request
        // Of which revision of a file it is, whatever the other one was told.
        response.request.revision = self.request.revision
        response.request.originalName = request.originalName
        return response
    }
}
