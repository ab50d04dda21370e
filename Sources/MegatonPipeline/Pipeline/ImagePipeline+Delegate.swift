public import Foundation
public import FoundationNetworking
internal import Logging

extension ImagePipeline {
    /// What may differ from request to request, and who is told of tasks: Nuke's delegate. Everything has a default.
    ///
    /// Its methods are called on any thread, for several requests at a time, and must not block.
    public protocol Delegate: AnyObject, Sendable {
        // MARK: Configuration

        func imageDecoder(for context: ImageDecodingContext, pipeline: ImagePipeline) -> (any ImageDecoding)?
        func imageEncoder(for context: ImageEncodingContext, pipeline: ImagePipeline) -> any ImageEncoding
        func dataLoader(for request: ImageRequest, pipeline: ImagePipeline) -> any DataLoading
        /// What is shown of a picture before all of it has come. Asked with what has come so far, and while it says
        /// `.disabled` again when that has doubled.
        func previewPolicy(for context: ImageDecodingContext, pipeline: ImagePipeline) -> PreviewPolicy
        /// Nil keeps no decoded picture of this request.
        func imageCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any ImageCaching)?
        /// Where the bytes of this request are kept, and looked for; nil keeps none. `pipeline.usualDataCache` by default.
        ///
        /// The answer also takes the place of the configuration's `flights`, a cluster's with its lock too: what is kept
        /// here is made for each process by itself. Who shares the work of another request shares its cache.
        func dataCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any DataCaching)?

        // MARK: Loading

        /// The last look at a request before the loader has it: the place for a token, which is in no key. Conditions of
        /// a revalidation are in it. It holds one of the places for fetches, is called once for all who want the same at
        /// the same time, and not for closures and for what is local. What it throws is `.dataLoadingFailed`.
        func willLoadData(
            for request: ImageRequest,
            urlRequest: URLRequest,
            pipeline: ImagePipeline
        ) async throws -> URLRequest

        // MARK: Caching

        /// The name in memory and in the data caches; nil for the pipeline's own. Of a request without processors and
        /// thumbnail it names the original too, in the place of its `imageID`: requests of one name, method, credential
        /// scope and header fields are one download.
        func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String?
        /// What is kept in the data caches in the place of these bytes; nil keeps nothing. Asked once for what has come or
        /// was encoded, not for renditions, nor again where an origin confirms what is kept. Whoever waits for the same
        /// bytes elsewhere goes on waiting meanwhile: after `waitBudget` nothing is kept.
        ///
        /// - Parameter image: of which the bytes were encoded; nil for an original.
        func willCache(
            data: Data,
            image: ImageContainer?,
            for request: ImageRequest,
            pipeline: ImagePipeline
        ) async -> Data?
        /// Nuke 12's form of the method above, whose default passes the question on to this one. A delegate has one of the
        /// two. Only the first answer counts.
        func willCache(
            data: Data,
            image: ImageContainer?,
            for request: ImageRequest,
            pipeline: ImagePipeline,
            completion: @escaping @Sendable (Data?) -> Void
        )

        // MARK: Decompression

        /// Whether ``decompress(response:request:pipeline:)`` is called; true by default.
        func shouldDecompress(response: ImageResponse, for request: ImageRequest, pipeline: ImagePipeline) -> Bool
        /// The last say about an image that was decoded, before it is processed, stored or returned: on a render thread,
        /// not for previews and renditions. Pixels are in memory by then, so that the default returns the response as it
        /// is. Of the result only the container counts.
        func decompress(response: ImageResponse, request: ImageRequest, pipeline: ImagePipeline) -> ImageResponse

        // MARK: Events

        /// Called before the task is handed out, by whoever asked for it.
        func imageTaskCreated(_ task: ImageTask, pipeline: ImagePipeline)
        /// All events, in their order.
        func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline)
    }
}

extension ImagePipeline {
    /// Looks at what a request asks for, with what the delegate has to say about loading it.
    func source(of request: ImageRequest) async throws(Error) -> Source {
        var source = try await originals.source(of: request)
        guard let delegate else { return source }
        source.flights = flights(for: request)
        // Weak, as a refresh behind an answer holds its source and must not hold the pipeline.
        source.hooks = LoadHooks(
            dataLoader: { [weak self, configuration] in
                self.map { delegate.dataLoader(for: request, pipeline: $0) } ?? configuration.dataLoader
            },
            willLoadData: { [weak self] urlRequest in
                guard let self else { throw CancellationError() }
                return try await delegate.willLoadData(for: request, urlRequest: urlRequest, pipeline: self)
            },
            willCache: { [weak self] data in
                // A pipeline that is gone has nobody to say what may be kept.
                guard let self else { return nil }
                return await willCache(data, nil, request, delegate)
            }
        )
        return source
    }
}

extension ImagePipeline {
    /// An image that was decoded, as the delegate wants it to be.
    func decompressed(_ response: ImageResponse) async throws(Error) -> ImageResponse {
        guard let delegate else { return response }
        let request = response.request
        guard delegate.shouldDecompress(response: response, for: request, pipeline: self) else { return response }
        do throws(Error) {
            let changed = try await renderer.run("\(request)") { [self] _ in
                delegate.decompress(response: response, request: request, pipeline: self)
            }
            var response = response
            response.container = changed.container.made(of: response.container.provenance)
            return response
        } catch {
            throw error.at(.decode, of: request)
        }
    }

    /// What a delegate lets be kept; nothing where it takes longer than those who want the same would wait.
    func willCache(
        _ data: Data,
        _ image: ImageContainer?,
        _ request: ImageRequest,
        _ delegate: any Delegate
    ) async -> Data? {
        let kept = await TimeLimit.run(configuration.waitBudget) { [self] in
            await delegate.willCache(data: data, image: image, for: request, pipeline: self)
        }
        if kept == nil {
            configuration.logger.warning(
                "the delegate's willCache took longer than waitBudget: nothing is kept",
                metadata: ["request": "\(request)"]
            )
        }
        return kept ?? nil
    }
}

extension ImagePipeline {
    /// For a delegate's `dataCache(for:pipeline:)`: whatever the configuration has, its `flights` included. Only a name,
    /// which keeps nothing by itself.
    public var usualDataCache: any DataCaching { UsualDataCache() }

    /// Where a request's bytes are kept, and who makes them.
    func flights(for request: ImageRequest) -> any FlightCoordinating {
        guard let delegate else { return configuration.coordinator }
        let cache = delegate.dataCache(for: request, pipeline: self)
        return cache is UsualDataCache ? configuration.coordinator : LocalFlights(cache: cache)
    }
}

extension ImagePipeline.Delegate {
    public func imageDecoder(for context: ImageDecodingContext, pipeline: ImagePipeline) -> (any ImageDecoding)? {
        pipeline.makeImageDecoder(context)
    }

    public func imageEncoder(for context: ImageEncodingContext, pipeline: ImagePipeline) -> any ImageEncoding {
        pipeline.configuration.makeImageEncoder(context)
    }

    public func dataLoader(for request: ImageRequest, pipeline: ImagePipeline) -> any DataLoading {
        pipeline.configuration.dataLoader
    }

    public func previewPolicy(
        for context: ImageDecodingContext,
        pipeline: ImagePipeline
    ) -> ImagePipeline.PreviewPolicy {
        .default(for: context.data)
    }

    public func imageCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any ImageCaching)? {
        pipeline.configuration.imageCache
    }

    public func dataCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any DataCaching)? {
        pipeline.usualDataCache
    }

    public func willLoadData(
        for request: ImageRequest,
        urlRequest: URLRequest,
        pipeline: ImagePipeline
    ) async throws -> URLRequest {
        urlRequest
    }

    public func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String? { nil }

    public func willCache(
        data: Data,
        image: ImageContainer?,
        for request: ImageRequest,
        pipeline: ImagePipeline
    ) async -> Data? {
        let answer = OneShot<Data?>()
        willCache(data: data, image: image, for: request, pipeline: pipeline) { answer.resolve($0) }
        return await answer.value
    }

    public func willCache(
        data: Data,
        image: ImageContainer?,
        for request: ImageRequest,
        pipeline: ImagePipeline,
        completion: @escaping @Sendable (Data?) -> Void
    ) {
        completion(data)
    }

    public func shouldDecompress(
        response: ImageResponse,
        for request: ImageRequest,
        pipeline: ImagePipeline
    ) -> Bool {
        true
    }

    public func decompress(
        response: ImageResponse,
        request: ImageRequest,
        pipeline: ImagePipeline
    ) -> ImageResponse {
        response
    }

    public func imageTaskCreated(_ task: ImageTask, pipeline: ImagePipeline) {}

    public func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline) {}
}
