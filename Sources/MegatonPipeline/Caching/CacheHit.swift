public import Foundation

/// Data that a cache had for a key, with the name of that cache.
public struct CacheHit: Sendable, Equatable {
    public var data: Data
    /// The ``DataCaching/layerName`` of the cache that had the data.
    public var layer: String

    public init(data: Data, layer: String) {
        self.data = data
        self.layer = layer
    }
}
