public import Foundation

/// A cache of bytes: Nuke's protocol, with requirements that may wait.
///
/// A plain synchronous method satisfies an `async` requirement, so a conformance written for Nuke compiles as it is.
/// Only `cachedData(for:)` and `storeData(_:for:)` have no default.
public protocol DataCaching: Sendable {
    /// The bytes for a key, or nil. Never throws: a cache that fails has missed.
    func cachedData(for key: String) async -> Data?
    /// The bytes for several keys, in their order: one round trip where the cache can.
    func cachedData(for keys: [String]) async -> [Data?]
    func containsData(for key: String) async -> Bool
    /// Keeps the bytes; later reads see them. A cache that cannot keep them drops them.
    func storeData(_ data: Data, for key: String) async
    func removeData(for key: String) async
    func removeAll() async
    /// What responses and metrics call this cache where it has answered: `memory`, `disk`, `redis`. The type's name by
    /// default.
    var layerName: String { get }
    /// As `cachedData(for:)`, for caches that consist of others: with the name of the one that had it.
    func hits(for keys: [String]) async -> [CacheHit?]
}

extension DataCaching {
    public var layerName: String { String(describing: type(of: self)) }

    /// What `cachedData(for:)` finds, under this cache's own name.
    public func hits(for keys: [String]) async -> [CacheHit?] {
        await cachedData(for: keys).map { data in data.map { CacheHit(data: $0, layer: layerName) } }
    }

    /// One lookup after the other.
    public func cachedData(for keys: [String]) async -> [Data?] {
        var found: [Data?] = []
        for key in keys { found.append(await cachedData(for: key)) }
        return found
    }

    public func containsData(for key: String) async -> Bool { await cachedData(for: key) != nil }

    // Not asynchronous, though callers wait for them: where one may wait, Swift would prefer them to the synchronous
    // methods of a type that has its own, and they would do nothing in their place. On an actor, as they would otherwise
    // be preferred to asynchronous methods where one may not wait: that does not compile now, as it should not.

    /// Nothing, for caches that cannot remove.
    @DataCachingDefaults public func removeData(for key: String) {}

    /// Nothing, for caches that cannot remove.
    @DataCachingDefaults public func removeAll() {}
}
