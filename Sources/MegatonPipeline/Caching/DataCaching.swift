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
}

extension DataCaching {
    /// One lookup after the other.
    public func cachedData(for keys: [String]) async -> [Data?] {
        var found: [Data?] = []
        for key in keys { found.append(await cachedData(for: key)) }
        return found
    }

    public func containsData(for key: String) async -> Bool { await cachedData(for: key) != nil }

    /// Nothing, for caches that cannot remove.
    public func removeData(for key: String) async {}

    /// Nothing, for caches that cannot remove.
    public func removeAll() async {}
}
