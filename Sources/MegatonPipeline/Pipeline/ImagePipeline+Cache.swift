public import Foundation

extension ImagePipeline {
    /// The caches of this pipeline, for looking, keeping and removing by hand.
    public var cache: Cache { Cache(pipeline: self) }

    /// Nuke's access to the caches. It heeds a request's options. What needs a data cache waits for it.
    ///
    /// Names of `file:` images have the size and the time of modification of the file in them. What is `async` looks at
    /// the file. What is not must not touch a disk: it has the file as this pipeline saw it last, and finds nothing of a
    /// file that it has not seen, or not among the last 65,536.
    public struct Cache: Sendable {
        /// Which of them.
        public struct Caches: OptionSet, Sendable {
            public let rawValue: Int

            public init(rawValue: Int) { self.rawValue = rawValue }

            public static let memory = Caches(rawValue: 1 << 0)
            public static let disk = Caches(rawValue: 1 << 1)
            public static let all: Caches = [.memory, .disk]
        }

        let pipeline: ImagePipeline

        // MARK: Memory

        /// A decoded image in memory; a preview where that is all there is yet.
        public subscript(request: ImageRequest) -> ImageContainer? {
            get { pipeline.cachedInMemory(request) }
            nonmutating set {
                if newValue != nil, request.options.contains(.disableMemoryCacheWrites) { return }
                if newValue?.isPreview == true, !pipeline.configuration.isStoringPreviewsInMemoryCache { return }
                pipeline.imageCache(for: request)?[pipeline.imageCacheKey(for: request)] = newValue
            }
        }

        public subscript(url: URL) -> ImageContainer? {
            get { self[ImageRequest(url: url)] }
            nonmutating set { self[ImageRequest(url: url)] = newValue }
        }

        // MARK: Images

        /// An image of memory, or decoded from what a data cache has of it.
        public func cachedImage(for request: ImageRequest, caches: Caches = .all) async -> ImageContainer? {
            let request = await revised(request)
            if caches.contains(.memory), let container = self[request] { return container }
            guard caches.contains(.disk), let data = await cachedData(for: request) else { return nil }
            // What is kept of a thumbnail is the thumbnail.
            var plain = request
            plain.thumbnail = nil
            let context = ImageDecodingContext(request: plain, data: data, cacheType: .disk)
            guard let decoder = pipeline.decoder(for: context) else { return nil }
            // One that cannot be decoded is none.
            return try? await pipeline.decode(context, by: decoder)
        }

        public func containsCachedImage(for request: ImageRequest, caches: Caches = .all) async -> Bool {
            let request = await revised(request)
            if caches.contains(.memory), self[request] != nil { return true }
            return caches.contains(.disk) ? await containsData(for: request) : false
        }

        /// Keeps an image; a preview in memory only, and only where the configuration says so.
        public func storeCachedImage(
            _ image: ImageContainer,
            for request: ImageRequest,
            caches: Caches = .all
        ) async throws(Error) {
            let request = await revised(request)
            if caches.contains(.memory) { self[request] = image }
            guard caches.contains(.disk), !image.isPreview, !request.options.contains(.disableDiskCacheWrites) else {
                return
            }
            try await pipeline.store(
                ImageResponse(container: image, request: request),
                as: pipeline.dataCacheKey(for: request)
            )
        }

        public func removeCachedImage(for request: ImageRequest, caches: Caches = .all) async {
            let request = await revised(request)
            if caches.contains(.memory) { self[request] = nil }
            if caches.contains(.disk) { await removeCachedData(for: request) }
        }

        /// Empties the pipeline's own caches. Those of a delegate, and a cluster's, are not its to empty.
        public func removeAll(caches: Caches = .all) async {
            if caches.contains(.memory) { pipeline.configuration.imageCache?.removeAll() }
            if caches.contains(.disk) { await pipeline.configuration.dataCache?.removeAll() }
        }

        // MARK: Data

        /// The bytes of a request's image. Of one without processors, those of the original.
        public func cachedData(for request: ImageRequest) async -> Data? {
            if request.options.contains(.disableDiskCacheReads) { return nil }
            let request = await revised(request)
            let found = await pipeline.flights(for: request).lookUp(keys(request))
            return found.lazy.compactMap { $0 }.first {
                $0.staleness == nil && $0.metadata.matches(request: request.sentFields)
            }?.data
        }

        public func containsData(for request: ImageRequest) async -> Bool { await cachedData(for: request) != nil }

        public func storeCachedData(_ data: Data, for request: ImageRequest) async {
            if request.options.contains(.disableDiskCacheWrites) { return }
            let request = await revised(request)
            let metadata = CachedData.Metadata(lifetime: pipeline.configuration.localLifetime.inSeconds)
            let entry = CachedData(data: data, metadata: metadata)
            await pipeline.flights(for: request).store(entry, for: pipeline.dataCacheKey(for: request))
        }

        public func removeCachedData(for request: ImageRequest) async {
            let request = await revised(request)
            for key in keys(request) { await pipeline.flights(for: request).discard(key) }
        }

        private func revised(_ request: ImageRequest) async -> ImageRequest {
            do throws(Error) {
                return try await pipeline.revised(request)
            } catch {
                // Gone, say: what is known of it are the names that it had.
                return pipeline.lastSeen(request)
            }
        }

        /// The request's own name, and where nothing is done to the original the one that it shares with requests of other
        /// header fields.
        private func keys(_ request: ImageRequest) -> [CacheKey] {
            let shared = request.changesOriginal ? nil : CacheKey.sharedOriginal(of: pipeline.named(request))
            return [pipeline.dataCacheKey(for: request), shared].compactMap { $0 }
        }

        // MARK: Keys

        public func makeImageCacheKey(for request: ImageRequest) -> ImageCacheKey {
            pipeline.imageCacheKey(for: request)
        }

        /// The name of a request's bytes in the data caches, whichever call has stored them: `storeCachedData`, `storeCachedImage`
        /// or a load. The article Caching says what is stored under its `description`.
        public func makeDataCacheKey(for request: ImageRequest) -> CacheKey { pipeline.dataCacheKey(for: request) }
    }
}
