internal import Foundation

/// Result of one lookup in the data caches for everything that a load can use, so that no later step looks again.
struct CacheLookup: Sendable {
    /// Entries that the request accepts without asking the origin.
    var entries: [CacheKey: CachedData] = [:]
    /// Nil if the original's coordinator must be asked.
    var original: OriginalLookup?
}

/// State of an original in a local cache at the time of a lookup.
struct OriginalLookup: Sendable {
    /// Entry of the original, fresh or stale.
    let entry: CachedData?
    /// Whether the cache has the beginning of an interrupted download; nil if it was not looked up.
    let hasPartial: Bool?
    /// Mark of the lookup. Loads of the original that ended after it may have changed the cache.
    let mark: Int
}

extension ImagePipeline {
    /// Looks up the image, the results of its first processors, the original and the beginning of its download.
    ///
    /// - Parameter steps: whether to look up results of the first processors too.
    func lookUp(_ request: ImageRequest, steps: Bool = true) async -> CacheLookup {
        let policy = request.cachePolicy
        // A processed image cannot be revalidated at the origin: that is done with the original.
        if request.options.contains(.disableDiskCacheReads) || !policy.allowsUnvalidated { return CacheLookup() }
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
        var found = CacheLookup()
        let entries: [CachedData?]
        if let flights = flights(for: request) as? LocalSingleFlight {
            let mark = originals.recentEnds.mark
            let lookup = await flights.lookUp(keys, partialOf: request.url == nil || request.isLocal ? nil : original)
            entries = lookup.entries
            if request.hasOriginal {
                let entry = lookup.entries[own - 1]
                found.original = OriginalLookup(entry: entry, hasPartial: lookup.hasPartial, mark: mark)
            }
        } else {
            entries = await flights(for: request).lookUp(keys)
        }
        let now = Date()
        for (key, entry) in zip(keys, entries) {
            if let entry, policy.accepts(entry, at: now) { found.entries[key] = entry }
        }
        return found
    }

    /// The request with the delegate's key for its original, if there is one.
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
