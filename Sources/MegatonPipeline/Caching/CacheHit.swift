public import Foundation

/// What a cache had for a key.
public struct CacheHit: Sendable, Equatable {
    public var data: Data
    /// The ``DataCaching/layerName`` of the cache that had it.
    public var layer: String

    public init(data: Data, layer: String) {
        self.data = data
        self.layer = layer
    }
}
