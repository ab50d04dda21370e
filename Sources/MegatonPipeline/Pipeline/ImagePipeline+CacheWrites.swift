internal import Foundation
internal import Logging

// Storage of finished images: pixels in memory and, depending on the policy, encoded bytes in a data cache.
extension ImagePipeline {
    /// Image in memory for a request, if the request may read it.
    func cachedInMemory(_ request: ImageRequest) -> ImageContainer? {
        if request.options.contains(.disableMemoryCacheReads) { return nil }
        return imageCache(for: request)?[imageCacheKey(for: request)]
    }

    /// Image in memory that also satisfies the cache directives of a request.
    func answerInMemory(_ request: ImageRequest) -> ImageContainer? {
        guard let container = cachedInMemory(request) else { return nil }
        return request.cachePolicy.accepts(container, at: Date()) ? container : nil
    }

    func imageCache(for request: ImageRequest) -> (any ImageCaching)? {
        delegate.map { $0.imageCache(for: request, pipeline: self) } ?? configuration.imageCache
    }

    func imageCacheKey(for request: ImageRequest) -> ImageCacheKey {
        delegate?.cacheKey(for: request, pipeline: self).map(ImageCacheKey.init(key:))
            ?? ImageCacheKey(request: named(lastSeen(request)))
    }

    /// Key of an image's bytes in the data caches: the original's key if that is unchanged, so that bytes and images of
    /// a request have one key, as in Nuke.
    func dataCacheKey(for request: ImageRequest) -> CacheKey {
        if request.changesOriginal, let key = delegate?.cacheKey(for: request, pipeline: self) {
            return CacheKey(.image, [key])
        }
        return .image(of: named(lastSeen(request)))
    }

    /// Stores a requested image, once for all tasks with the same one. Intermediate results are not stored.
    ///
    /// - Parameter metrics: of the requesting task; counts images that were not stored because of too many background
    ///   tasks.
    func store(_ response: ImageResponse, _ metrics: PipelineMetrics) {
        let request = response.request
        guard let storeFlag = response.storeFlag, storeFlag.isFirst() else { return }
        if !request.options.contains(.disableMemoryCacheWrites), request.cachePolicy.allowsStorage {
            imageCache(for: request)?[imageCacheKey(for: request)] = response.container
        }
        if storesEncoded(response) { encode(response, metrics) }
    }

    /// Nuke's table. Images from a data cache, and images made from encoded ones, are not encoded again, as that would
    /// cost quality each time. Images made from a stored original are stored, while Nuke makes them again each time.
    private func storesEncoded(_ response: ImageResponse) -> Bool {
        let request = response.request
        guard !response.isPreview, !request.options.contains(.disableDiskCacheWrites), request.cachePolicy.allowsStorage
        else {
            return false
        }
        if let provenance = response.container.provenance, !provenance.allowsEncoding { return false }
        return switch configuration.dataCachePolicy {
        case .automatic, .storeAll, .storeReused: request.changesOriginal
        case .storeEncodedImages: request.changesOriginal || response.cacheType == nil
        case .storeOriginalData, .storeNothing: false
        }
    }

    /// Encodes and stores an image in the background, within the limit on background tasks.
    private func encode(_ response: ImageResponse, _ metrics: PipelineMetrics) {
        let key = dataCacheKey(for: response.request)
        let start = revalidator.start([key]) { [self] _ in
            do {
                try await store(response, as: key)
            } catch {
                configuration.logger.debug("an image was not stored", metadata: ["error": "\(error)"])
            }
        }
        metrics.update { $0.dropped += start.rejected.count }
    }

    private func encoder(for context: ImageEncodingContext) -> any ImageEncoding {
        guard let delegate else { return configuration.makeImageEncoder(context) }
        return delegate.imageEncoder(for: context, pipeline: self)
    }

    /// Encodes an image on a render thread.
    ///
    /// - Throws: the encoder's error, as `.encodingFailed` unless it is one of the pipeline; `.encodingFailed` too if
    ///   the encoder returns no bytes.
    private func encode(_ container: ImageContainer, _ context: ImageEncodingContext) async throws(Error) -> Data {
        let (request, encoder) = (context.request, encoder(for: context))
        do throws(Error) {
            return try await renderer.run("\(request)") { _ in
                let data: Data?
                do {
                    data = try encoder.encoded(container, context: context)
                } catch let error as Error {
                    throw error
                } catch {
                    throw Error(.encodingFailed, "the encoder failed: \(error)", underlying: error)
                }
                guard let data, !data.isEmpty else { throw Error(.encodingFailed, "the encoder returned no bytes.") }
                return data
            }
        } catch {
            throw error.at(.encode, of: request)
        }
    }

    /// - Throws: `.encodingFailed`, `.renderTimedOut`, `.cancelled`.
    func store(_ response: ImageResponse, as key: CacheKey) async throws(Error) {
        let (request, container) = (response.request, response.container)
        let context = ImageEncodingContext(
            request: request,
            image: container.image,
            urlResponse: response.urlResponse
        )
        let encoded = try await encode(container, context)
        var allowed: Data? = encoded
        if let delegate {
            allowed = await willCache(encoded, container, request, delegate)
        }
        guard let data = allowed else { return }
        let known = container.provenance.map { $0.metadata() } ?? originals.localMetadata
        guard var metadata = known else { return }
        metadata.type = AssetType(data)?.mediaType
        metadata.width = container.image.size.width
        metadata.height = container.image.size.height
        await flights(for: request).store(CachedData(data: data, metadata: metadata), for: key)
    }
}
