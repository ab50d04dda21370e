public import Foundation
public import FoundationNetworking
internal import Logging

extension ImagePipeline {
    /// Per-request configuration and task events of a pipeline: Nuke's delegate. Every method has a default.
    ///
    /// Methods are called on any thread, for several requests at a time, and must not block.
    public protocol Delegate: AnyObject, Sendable {
        // MARK: Configuration

        func imageDecoder(for context: ImageDecodingContext, pipeline: ImagePipeline) -> (any ImageDecoding)?
        func imageEncoder(for context: ImageEncodingContext, pipeline: ImagePipeline) -> any ImageEncoding
        func dataLoader(for request: ImageRequest, pipeline: ImagePipeline) -> any DataLoading
        /// Preview policy for an image whose download is under way. Called with the bytes received so far; after
        /// `.disabled`, called again when their number has doubled.
        func previewPolicy(for context: ImageDecodingContext, pipeline: ImagePipeline) -> PreviewPolicy
        /// Memory cache for the request's decoded image; nil stores none.
        func imageCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any ImageCaching)?
        /// Cache for the request's bytes, for lookup and storage; nil stores none. `pipeline.usualDataCache` by
        /// default.
        ///
        /// Any other cache also replaces the configuration's `flights`, including a cluster's lock: each process then
        /// makes the results on its own. Requests that are coalesced share one cache.
        func dataCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any DataCaching)?

        // MARK: Loading

        /// Last change to a request before the loader sends it, e.g. to add a token, which is not part of any cache
        /// key.
        ///
        /// The request already has the conditions of a revalidation. The call occupies a fetch slot. It is made once
        /// for all requests that share the download, and not for closures and local sources. An error that it throws is
        /// reported as `.dataLoadingFailed`, a `CancellationError` as `.cancelled`.
        func willLoadData(
            for request: ImageRequest,
            urlRequest: URLRequest,
            pipeline: ImagePipeline
        ) async throws -> URLRequest

        // MARK: Caching

        /// Cache key for memory and data caches; nil for the pipeline's own.
        ///
        /// For a request without processors and thumbnail the key also identifies the original, in place of `imageID`:
        /// requests with the same key, method, credential scope and header fields share one download.
        func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String?
        /// Bytes to store in the data caches in place of `data`; nil stores nothing.
        ///
        /// Called once for bytes that were fetched or encoded. Not called for renditions, nor when an origin confirms a
        /// stored entry. Requests elsewhere that wait for the same bytes wait for this call too: after `waitBudget`
        /// nothing is stored.
        ///
        /// - Parameter image: image that was encoded into the bytes; nil for an original.
        func willCache(
            data: Data,
            image: ImageContainer?,
            for request: ImageRequest,
            pipeline: ImagePipeline
        ) async -> Data?
        /// Nuke 12's form of the method above, whose default calls this one. Implement one of the two. Only the first
        /// call of `completion` counts.
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
        /// Last change to a decoded image before it is processed, stored or returned. Called on a render thread, and
        /// not for previews and renditions. The pixels are in memory by then, so the default returns the response
        /// unchanged. Only the container of the result is used.
        func decompress(response: ImageResponse, request: ImageRequest, pipeline: ImagePipeline) -> ImageResponse

        // MARK: Events

        /// Called before the task is returned, on the thread that requested it.
        func imageTaskCreated(_ task: ImageTask, pipeline: ImagePipeline)
        /// Called with all events of a task, in order.
        func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline)
    }
}

extension ImagePipeline {
    /// Resolves the source of a request, with the delegate's hooks for loading it.
    func source(of request: ImageRequest) async throws(Error) -> Source {
        var source = try await originals.source(of: request)
        guard let delegate else { return source }
        source.flights = flights(for: request)
        // Weak: a background revalidation retains its source and must not retain the pipeline.
        source.hooks = LoadHooks(
            dataLoader: { [weak self, configuration] in
                self.map { delegate.dataLoader(for: request, pipeline: $0) } ?? configuration.dataLoader
            },
            willLoadData: { [weak self] urlRequest in
                guard let self else { throw CancellationError() }
                return try await delegate.willLoadData(for: request, urlRequest: urlRequest, pipeline: self)
            },
            willCache: { [weak self] data in
                // Without the pipeline, the delegate cannot decide: nothing is stored.
                guard let self else { return nil }
                return await willCache(data, nil, request, delegate)
            }
        )
        return source
    }
}

extension ImagePipeline {
    /// The decoded response after the delegate's `decompress`.
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

    /// Bytes that the delegate allows to be stored; nil if it takes longer than `waitBudget`, the limit for requests
    /// that wait for the same bytes.
    func willCache(
        _ data: Data,
        _ image: ImageContainer?,
        _ request: ImageRequest,
        _ delegate: any Delegate
    ) async -> Data? {
        let allowed = await TimeLimit.run(configuration.waitBudget) { [self] in
            await delegate.willCache(data: data, image: image, for: request, pipeline: self)
        }
        if allowed == nil {
            configuration.logger.warning(
                "the delegate's willCache took longer than waitBudget; nothing is stored",
                metadata: ["request": "\(request)"]
            )
        }
        return allowed ?? nil
    }
}

extension ImagePipeline {
    /// Value for a delegate's `dataCache(for:pipeline:)` that selects the caches of the configuration, including its
    /// `flights`. A placeholder that stores nothing itself.
    public var usualDataCache: any DataCaching { UsualDataCache() }

    /// Coordinator of a request's flights, with the cache of its bytes.
    func flights(for request: ImageRequest) -> any SingleFlightCoordinating {
        guard let delegate else { return configuration.coordinator }
        let cache = delegate.dataCache(for: request, pipeline: self)
        return cache is UsualDataCache ? configuration.coordinator : configuration.localFlights(cache)
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
        let answer = Promise<Data?>()
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

/// Placeholder for the caches of a pipeline's configuration, which need not be a `DataCaching`: a cluster's flights are
/// none.
struct UsualDataCache: DataCaching {
    func cachedData(for key: String) async -> Data? { nil }

    func storeData(_ data: Data, for key: String) async {}
}
