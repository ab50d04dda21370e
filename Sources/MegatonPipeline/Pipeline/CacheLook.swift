internal import Foundation

/// One look at the data caches for everything that a load can use, so that no later step has to look again.
struct CacheLook: Sendable {
    /// Entries that are good enough for the request.
    var entries: [CacheKey: CachedData] = [:]
    /// Nil if the original's flights have to be asked.
    var original: OriginalLook?
}

/// The state of an original in a local cache, as it was a moment ago.
struct OriginalLook: Sendable {
    /// Fresh or stale.
    let entry: CachedData?
    /// Whether the cache has the beginning of an interrupted download; nil if it was not asked.
    let hasPartial: Bool?
    /// Loads of the original that ended later may have changed the cache.
    let mark: Int
}

extension ImagePipeline {
    /// Looks up the image, the results of its first processors, the original and the beginning of its download.
    ///
    /// - Parameter steps: whether results of the first processors are of use.
    func lookUp(_ request: ImageRequest, steps: Bool = true) async -> CacheLook {
        let policy = request.cachePolicy
        // A result cannot be asked about at the origin: that is done with the original.
        if request.options.contains(.disableDiskCacheReads) || !policy.takesUnasked { return CacheLook() }
        var keys: [CacheKey] = []
        var part = request
        while true {
            keys.append(dataCacheKey(for: part))
            if part.processors.isEmpty || !steps { break }
            part.processors.removeLast()
        }
        let original = CacheKey.original(of: request)
        if request.hasOriginal, keys.last != original { keys.append(original) }
        let own = keys.count
        if request.hasOriginal, let shared = CacheKey.sharedOriginal(of: request) { keys.append(shared) }
        var found = CacheLook()
        let entries: [CachedData?]
        if let flights = flights(for: request) as? LocalFlights {
            let mark = originals.ends.mark
            let look = await flights.look(keys, partialOf: request.url == nil || request.isLocal ? nil : original)
            entries = look.entries
            if request.hasOriginal {
                let entry = look.entries[own - 1]
                found.original = OriginalLook(entry: entry, hasPartial: look.hasPartial, mark: mark)
            }
        } else {
            entries = await flights(for: request).lookUp(keys)
        }
        let now = Date()
        for (key, entry) in zip(keys, entries) {
            if let entry, policy.isContent(with: entry, at: now) { found.entries[key] = entry }
        }
        return found
    }

    /// The request with the delegate's name for its original, if it has one.
    func named(_ request: ImageRequest) -> ImageRequest {
        var named = request
        named.originalName = delegate.flatMap { delegate in
            var plain = request
            plain.processors = []
            plain.thumbnail = nil
            return delegate.cacheKey(for: plain, pipeline: self)
        }
        return named
    }
}
