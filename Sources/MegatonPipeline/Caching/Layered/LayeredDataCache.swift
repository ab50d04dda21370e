public import Foundation

/// Several caches, the fastest first: a `MemoryDataCache` over a `DataCache` over a shared one, say.
///
/// Everything is stored in all layers. What only a lower one has is put into those above it when it is read. An upper layer
/// does not hear what others write into a lower one that is shared: give it a time to live where that matters. For layers
/// before a cluster's Redis, which it does hear of, see ``LayeredFlights``.
public struct LayeredDataCache: DataCaching {
    /// The fastest first.
    public let layers: [any DataCaching]
    private let gate = PromotionGate()

    public init(_ layers: [any DataCaching]) { self.layers = layers }

    /// The data for several keys, in their order, and the index of the layer that had it. Each layer is asked once, for what
    /// is still missing; each key once, however often it is named.
    public func lookUp(_ keys: [String]) async -> [(data: Data, layer: Int)?] {
        await find(keys).map { found in found.map { ($0.hit.data, $0.layer) } }
    }

    /// With the names of the layers, and of those within them.
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

    /// Whether a layer has it; nothing is put into those above.
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
        // What began to be looked up meanwhile may have found what is gone now.
        gate.changeAll()
    }

    /// Puts what a lower layer had into those above it, unless the key has been changed since it was looked up.
    private func promote(_ data: Data, for key: String, above layer: Int, _ ticket: PromotionGate.Ticket) async {
        await gate.promote(key, ticket) {
            for upper in layers[..<layer] { await upper.storeData(data, for: key) }
        } undo: {
            for upper in layers[..<layer] { await upper.removeData(for: key) }
        }
    }
}
