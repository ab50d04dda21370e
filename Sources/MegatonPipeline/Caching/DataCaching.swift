public import Foundation

/// A cache of bytes: Nuke's protocol, with asynchronous requirements.
///
/// A synchronous method satisfies an `async` requirement, so a conformance written for Nuke compiles unchanged. Only
/// `cachedData(for:)` and `storeData(_:for:)` have no default.
public protocol DataCaching: Sendable {
    /// Returns the bytes for a key, or nil. Never throws: a failure counts as a miss.
    func cachedData(for key: String) async -> Data?
    /// Returns the bytes for several keys, in their order; in one round trip if the cache supports it.
    func cachedData(for keys: [String]) async -> [Data?]
    func containsData(for key: String) async -> Bool
    /// Stores the bytes, so that later reads return them. A cache that cannot store them drops them.
    func storeData(_ data: Data, for key: String) async
    func removeData(for key: String) async
    func removeAll() async
    /// The name of this cache in responses and metrics, e.g. `memory`, `disk` or `redis`. Defaults to the name of the
    /// type.
    var layerName: String { get }
    /// Like `cachedData(for:)`, with the name of the cache that had the data. A cache that consists of others reports
    /// which of them had it.
    func hits(for keys: [String]) async -> [CacheHit?]
}

extension DataCaching {
    public var layerName: String { String(describing: type(of: self)) }

    /// Wraps the result of `cachedData(for:)` with this cache's own name.
    public func hits(for keys: [String]) async -> [CacheHit?] {
        await cachedData(for: keys).map { data in data.map { CacheHit(data: $0, layer: layerName) } }
    }

    /// Looks up one key after the other.
    public func cachedData(for keys: [String]) async -> [Data?] {
        var found: [Data?] = []
        for key in keys { found.append(await cachedData(for: key)) }
        return found
    }

    public func containsData(for key: String) async -> Bool { await cachedData(for: key) != nil }

    // These defaults are not `async`, although callers await them: in an asynchronous context Swift would prefer them
    // to the synchronous methods of a conforming type, and removals would do nothing. They are isolated to a global
    // actor because in a synchronous context Swift would otherwise prefer them to a type's `async` methods. With the
    // isolation such a call does not compile, as intended.

    /// Does nothing, for caches that cannot remove.
    @DataCachingDefaults public func removeData(for key: String) {}

    /// Does nothing, for caches that cannot remove.
    @DataCachingDefaults public func removeAll() {}
}

/// Isolates the no-op defaults of ``DataCaching``, which steers overload resolution: see there. No code ever waits for
/// this actor.
@globalActor public actor DataCachingDefaults {
    public static let shared = DataCachingDefaults()
}

/// Data that a cache had for a key, with the name of that cache.
public struct CacheHit: Sendable, Equatable {
    /// The bytes of the entry.
    public var data: Data
    /// The ``DataCaching/layerName`` of the cache that had the data.
    public var layer: String

    /// Creates a hit.
    public init(data: Data, layer: String) {
        self.data = data
        self.layer = layer
    }
}
