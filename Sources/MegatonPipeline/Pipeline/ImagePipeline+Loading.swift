internal import Foundation
internal import Logging

// How an image is loaded:
//
//   memory cache ─ one lookup in the data caches: the image, or an intermediate result ─ the original
//                                                                        │                   │ decode
//                                                                        └─ next processor ◄─┘
//
// Each step is a work item of its own in the task graph, so that requests with common steps run these once.
extension ImagePipeline {
    typealias LoadContext = WorkContext<ImageResponse>

    // MARK: - Tasks

    /// Loads the image of a task and stores the result in the caches.
    func load(_ task: ImageTask) {
        let request = named(task.request)
        let metrics = task.recorder
        let key = OriginalLoadKey(request)
        let claims = [
            // With the policy `automatic`, one task that wants the unprocessed original is enough to have it stored.
            originals.demand.claim(key, if: configuration.dataCachePolicy.storesOriginal(of: request)),
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
                storeInMemory(preview: response)
                task.send(preview: response)
            case .value(let response, isCompleted: true):
                let response = response.for(request)
                store(response, metrics.counts)
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

    /// - Parameter found: cache entries of the image and its intermediate results; nil if they were not looked up yet.
    private func job(
        for request: ImageRequest,
        _ found: CacheLookup?,
        _ metrics: TaskRecorder
    ) -> WorkJob<ImageResponse> {
        .starting { [self] context in
            // The key of a file contains its revision. Reading that blocks, which must not happen in this synchronous
            // call.
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

    /// Returns the image from memory. A preview is sent to the subscribers instead, and nil is returned.
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
        _ known: CacheLookup?,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse {
        let found: CacheLookup
        if let known { found = known } else { found = await lookUp(request) }
        if let response = try await cached(request, found, metrics, context) { return response }
        if let last = request.processors.last {
            var rest = request
            rest.processors.removeLast()
            let gate = PreviewGate<ImageResponse>()
            defer { gate.end() }  // After a failure, cancels a preview under way.
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

    /// The image from its data cache entry; nil if there is none, or if its bytes cannot be decoded.
    private func cached(
        _ request: ImageRequest,
        _ found: CacheLookup,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse? {
        let key = dataCacheKey(for: request)
        guard let entry = found.entries[key], entry.metadata.matches(request: request.sentFields) else { return nil }
        // The entry is the finished image: a thumbnail must not be scaled down a second time.
        var plain = request
        plain.thumbnail = nil
        return try await decode(entry, key, as: plain, request, metrics, context)
    }

    /// Decodes a data cache entry. If its bytes cannot be decoded, discards the entry and returns nil.
    ///
    /// - Parameter decoded: the request that the bytes belong to; its thumbnail decides whether they are scaled down.
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
            return try await decompressed(response).storedOnce()
        } catch {
            // Limits and decoders are those of this pipeline: another one may use the entry.
            guard [.corruptImage, .unsupportedFormat].contains(error.code) else { throw error }
            configuration.logger.debug(
                "a cache entry could not be decoded and is removed",
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
            try await RenderSlot(queue: renders, context: context).perform { [self] () async throws(Error) in
                try await apply(processor, to: input, request)
            }
        }
        return ImageResponse(
            container: container.made(of: input.container.provenance),
            request: request,
            urlResponse: input.urlResponse,
            cacheType: input.cacheType,
            cacheLayer: input.cacheLayer
        ).storedOnce()
    }

    /// Applies a processor on a render thread, within the render limits for size and time.
    ///
    /// - Parameter cancellation: cancels the step, as cancellation of the calling task does.
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
        _ found: CacheLookup,
        _ metrics: TaskRecorder,
        _ context: LoadContext
    ) async throws(Error) -> ImageResponse {
        if case .image(let id, let make) = request.resource {
            if request.options.contains(.returnCacheDataDontLoad) {
                throw Error(
                    .dataMissingInCache,
                    "\(id) is in no cache, and the request forbids making it.",
                    stage: .load
                )
            }
            return ImageResponse(container: try await container(id, make, metrics), request: request).storedOnce()
        }
        let own = CacheKey.original(of: request)
        // An entry that could not be decoded has been discarded by now, so the lookup result is outdated.
        let lookup = found.entries[own] == nil ? found.original : nil
        for case let key? in [own, CacheKey.sharedOriginal(of: request)] {
            // Without processors and thumbnail the request's own original is the image itself, tried in `cached`
            // already.
            guard let entry = found.entries[key], request.changesOriginal || key != own,
                entry.metadata.matches(request: request.sentFields)
            else { continue }
            if let response = try await decode(entry, key, as: request, request, metrics, context) { return response }
        }
        let previews = PreviewDecoding()
        defer { previews.gate.end() }  // After a failure, cancels a preview under way.
        let original = try await metrics.measure(.load) { () async throws(Error) -> Original in
            try await self.original(for: request, metrics.counts, context, lookup) { [self] partial in
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
                    isReencoded: original.metadata?.isOfEncodedImage == true,
                    since: original.received
                )
            ),
            request: request,
            urlResponse: original.response,
            cacheType: decoding.cacheType,
            cacheLayer: original.layer
        )
        return try await decompressed(response).storedOnce()
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

    /// Loads the bytes of a request from a cache or its origin.
    ///
    /// - Parameters:
    ///   - context: work item that needs the bytes and receives the progress. The tasks behind it decide whether the
    ///     original is stored; without a context, the request does.
    ///   - lookup: result of a recent cache lookup.
    ///   - wantsResponse: see `OriginalRequestOptions`.
    ///   - onPartial: called at intervals with the bytes received so far, while a task wants previews.
    func original(
        for request: ImageRequest,
        _ metrics: PipelineMetrics,
        _ context: LoadContext? = nil,
        _ lookup: OriginalLookup? = nil,
        wantsResponse: Bool = false,
        onPartial: @escaping @Sendable (Original) -> Void = { _ in }
    ) async throws(Error) -> Original {
        let source = try await source(of: request)
        if context != nil, request.isFile, source.key != .original(of: request) {
            throw Error(.incompleteBody, "\(source) changed while it was loaded.", stage: .load)
        }
        let storesOriginal = context == nil && configuration.dataCachePolicy.storesOriginal(of: request)
        var options = OriginalRequestOptions(request, storesOriginal: storesOriginal)
        options.wantsResponse = wantsResponse
        return try await originals.load(
            source,
            options,
            metrics,
            lookup: lookup,
            for: context,
            onPartial: onPartial
        )
    }
}

/// Identity of an image request: requests with equal keys are coalesced.
struct ImageLoadKey: Hashable, Sendable {
    /// Key of the fetched original.
    let original: CacheKey
    /// A request for a fresh image must not get one that another request accepted.
    let cachePolicy: RequestCachePolicy
    /// A retry must not get a failure that another request accepted.
    let maximumFailureAge: Duration?
    let options: UInt16
    let thumbnail: ImageRequest.ThumbnailOptions?
    let processors: [String]
    /// Unique for a request whose response is not shared with any other; nil for all others.
    private let exclusive: UUID?

    init(_ request: ImageRequest) {
        original = .original(of: request)
        cachePolicy = request.cachePolicy
        maximumFailureAge = request.failureAge
        options = request.options.rawValue
        thumbnail = request.thumbnail
        processors = request.processors.map(\.identifier)
        exclusive = cachePolicy.isExclusive ? UUID() : nil
    }
}
