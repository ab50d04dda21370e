public import Foundation

/// Several caches in layers, the fastest first, e.g. a `MemoryDataCache` over a `DataCache` over a shared cache.
///
/// Data is stored in all layers. Data found only in a lower layer is promoted to those above when it is read. An upper
/// layer does not learn of changes that other processes make to a shared layer below; give it a time to live if that
/// matters. A worker's own near cache, which is notified of deletions in Redis, is `Worker.Configuration.dataCache`.
public struct LayeredDataCache: DataCaching {
    /// The layers, the fastest first.
    public let layers: [any DataCaching]
    private let gate = PromotionLock()

    /// Combines caches, the fastest first.
    public init(_ layers: [any DataCaching]) { self.layers = layers }

    /// Returns the data for several keys, in their order, with the index of the layer that had it. Each layer is asked
    /// once, for the keys still missing, and for each key once even if it is repeated.
    package func lookUp(_ keys: [String]) async -> [(data: Data, layer: Int)?] {
        await find(keys).map { found in found.map { ($0.hit.data, $0.layer) } }
    }

    /// Returns the data with the name of its layer; a layer that itself consists of layers reports the inner one.
    public func hits(for keys: [String]) async -> [CacheHit?] { await find(keys).map { $0?.hit } }

    private func find(_ keys: [String]) async -> [(hit: CacheHit, layer: Int)?] {
        var found: [String: (hit: CacheHit, layer: Int)] = [:]
        var missing: [String] = []
        var seen: Set<String> = []
        for key in keys where seen.insert(key).inserted { missing.append(key) }
        let ticket = gate.beginLookUp(missing)
        for (layer, cache) in layers.enumerated() where !missing.isEmpty {
            for (key, hit) in zip(missing, await cache.hits(for: missing)) {
                if let hit { found[key] = (hit, layer) }
            }
            missing.removeAll { found[$0] != nil }
        }
        for (key, found) in found where found.layer > 0 {
            await promote(found.hit.data, for: key, above: found.layer, ticket)
        }
        gate.endLookUp(ticket)
        return keys.map { found[$0] }
    }

    /// Whether a layer has the data; nothing is promoted.
    public func containsData(for key: String) async -> Bool {
        for layer in layers where await layer.containsData(for: key) { return true }
        return false
    }

    public func cachedData(for key: String) async -> Data? { await lookUp([key])[0]?.data }

    public func cachedData(for keys: [String]) async -> [Data?] { await lookUp(keys).map { $0?.data } }

    public func storeData(_ data: Data, for key: String) async {
        await gate.change(key) {
            for layer in layers { await layer.storeData(data, for: key) }
        }
    }

    public func removeData(for key: String) async {
        await gate.change(key) {
            for layer in layers { await layer.removeData(for: key) }
        }
    }

    public func removeAll() async {
        gate.changeAll()
        for layer in layers { await layer.removeAll() }
        // Lookups that started during the removal may have found data that is now removed.
        gate.changeAll()
    }

    /// Stores data found in a lower layer in those above, unless the key was changed since the lookup. Does not wait
    /// for a slow disk.
    private func promote(_ data: Data, for key: String, above layer: Int, _ ticket: PromotionLock.Ticket) async {
        await gate.promote(key, ticket) {
            for upper in layers[..<layer] { await upper.offer(data, for: key) }
        } undo: {
            for upper in layers[..<layer] { await upper.removeData(for: key) }
        }
    }
}

extension LayeredDataCache: WaitingDataCaching {
    package func storeDataAtOnce(_ data: Data, for key: String) async {
        await gate.changeIfFree(key) {
            for layer in layers { await layer.offer(data, for: key) }
        }
    }
}

/// A cache whose `storeData` may wait, as its disk is slow.
package protocol WaitingDataCaching: DataCaching {
    /// Stores bytes as `storeData` does if that needs no wait; drops them otherwise, and an older entry stays.
    func storeDataAtOnce(_ data: Data, for key: String) async
}

extension DataCaching {
    /// Stores a copy of data that was just read from another cache: the reader does not wait for a slow disk, and can
    /// read the data there again.
    func offer(_ data: Data, for key: String) async {
        if let cache = self as? any WaitingDataCaching {
            await cache.storeDataAtOnce(data, for: key)
        } else {
            await storeData(data, for: key)
        }
    }
}
