public import Foundation

extension ImagePipeline {
    /// Direct access to the caches of this pipeline: lookup, storage and removal.
    public var cache: Cache { Cache(pipeline: self) }

    /// Nuke's access to the caches. The options of a request apply. Methods that need a data cache are `async`.
    ///
    /// Cache keys of `file:` images contain the file's size and modification time. `async` methods read them from the
    /// file. Synchronous methods must not access a disk: they use the values that this pipeline read last, and find
    /// nothing for a file that is not among the last 65,536 it has read.
    public struct Cache: Sendable {
        /// Selection of caches.
        public struct Caches: OptionSet, Sendable {
            public let rawValue: Int

            public init(rawValue: Int) { self.rawValue = rawValue }

            /// The cache of decoded images.
            public static let memory = Caches(rawValue: 1 << 0)
            /// The cache of bytes.
            public static let disk = Caches(rawValue: 1 << 1)
            /// Both caches.
            public static let all: Caches = [.memory, .disk]
        }

        let pipeline: ImagePipeline

        // MARK: Memory

        /// Decoded image in memory; a preview if nothing more has been decoded yet.
        public subscript(request: ImageRequest) -> ImageContainer? {
            get { pipeline.cachedInMemory(request) }
            nonmutating set {
                if newValue != nil, request.options.contains(.disableMemoryCacheWrites) { return }
                if newValue?.isPreview == true, !pipeline.configuration.isStoringPreviewsInMemoryCache { return }
                pipeline.imageCache(for: request)?[pipeline.imageCacheKey(for: request)] = newValue
            }
        }

        /// The decoded image of a URL in the memory cache.
        public subscript(url: URL) -> ImageContainer? {
            get { self[ImageRequest(url: url)] }
            nonmutating set { self[ImageRequest(url: url)] = newValue }
        }

        // MARK: Images

        /// Image from memory, or decoded from its data cache entry.
        public func cachedImage(for request: ImageRequest, caches: Caches = .all) async -> ImageContainer? {
            let request = await revised(request)
            if caches.contains(.memory), let container = self[request] { return container }
            guard caches.contains(.disk), let data = await cachedData(for: request) else { return nil }
            // The entry of a thumbnail is the thumbnail itself.
            var plain = request
            plain.thumbnail = nil
            let context = ImageDecodingContext(request: plain, data: data, cacheType: .disk)
            guard let decoder = pipeline.decoder(for: context) else { return nil }
            // An entry that cannot be decoded counts as missing.
            let slot = RenderSlot(queue: pipeline.renders, context: nil, priority: request.priority)
            return try? await pipeline.decode(context, by: decoder, slot: slot)
        }

        /// Whether one of the caches has the image.
        public func containsCachedImage(for request: ImageRequest, caches: Caches = .all) async -> Bool {
            let request = await revised(request)
            if caches.contains(.memory), self[request] != nil { return true }
            return caches.contains(.disk) ? await containsData(for: request) : false
        }

        /// Stores an image; a preview in memory only, and only if the configuration allows that.
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

        /// Removes the image from the caches.
        public func removeCachedImage(for request: ImageRequest, caches: Caches = .all) async {
            let request = await revised(request)
            if caches.contains(.memory) { self[request] = nil }
            if caches.contains(.disk) { await removeCachedData(for: request) }
        }

        /// Empties the pipeline's own caches, but not those of a delegate or a cluster.
        public func removeAll(caches: Caches = .all) async {
            if caches.contains(.memory) { pipeline.configuration.imageCache?.removeAll() }
            if caches.contains(.disk) { await pipeline.configuration.dataCache?.removeAll() }
        }

        // MARK: Data

        /// Bytes of a request's image; without processors, those of the original.
        public func cachedData(for request: ImageRequest) async -> Data? {
            if request.options.contains(.disableDiskCacheReads) { return nil }
            let request = await revised(request)
            let found = await pipeline.flights(for: request).lookUp(keys(request))
            return found.lazy.compactMap { $0 }.first {
                $0.staleness == nil && $0.metadata.matches(request: request.sentFields)
            }?.data
        }

        /// Whether the data cache has the bytes of the request.
        public func containsData(for request: ImageRequest) async -> Bool { await cachedData(for: request) != nil }

        /// Stores bytes in the data cache, under the key of the request.
        public func storeCachedData(_ data: Data, for request: ImageRequest) async {
            if request.options.contains(.disableDiskCacheWrites) { return }
            let request = await revised(request)
            let metadata = CachedData.Metadata(lifetime: pipeline.configuration.localLifetime.inSeconds)
            let entry = CachedData(data: data, metadata: metadata)
            await pipeline.flights(for: request).store(entry, for: pipeline.dataCacheKey(for: request))
        }

        /// Removes the bytes of the request from the data cache.
        public func removeCachedData(for request: ImageRequest) async {
            let request = await revised(request)
            for key in keys(request) { await pipeline.flights(for: request).discard(key) }
        }

        private func revised(_ request: ImageRequest) async -> ImageRequest {
            do throws(Error) {
                return try await pipeline.revised(request)
            } catch {
                // The file may have been deleted: use the keys of its last known revision.
                return pipeline.lastSeen(request)
            }
        }

        /// The request's own key and, if the original is unchanged, the key that it shares with requests that have
        /// other header fields.
        private func keys(_ request: ImageRequest) -> [CacheKey] {
            let shared = request.changesOriginal ? nil : CacheKey.sharedOriginal(of: pipeline.named(request))
            return [pipeline.dataCacheKey(for: request), shared].compactMap { $0 }
        }

        // MARK: Keys

        /// The key of the request in the memory cache.
        public func makeImageCacheKey(for request: ImageRequest) -> ImageCacheKey {
            pipeline.imageCacheKey(for: request)
        }

        /// Key of a request's bytes in the data caches, the same for `storeCachedData`, `storeCachedImage` and loads.
        /// The article Caching describes the data stored under its `description`.
        public func makeDataCacheKey(for request: ImageRequest) -> CacheKey { pipeline.dataCacheKey(for: request) }
    }
}
