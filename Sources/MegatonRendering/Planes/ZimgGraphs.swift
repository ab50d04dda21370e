import Synchronization

/// An LRU cache of scaling graphs. Building a graph takes several times as long as running it once for a thumbnail, and
/// the images of a batch have few distinct sizes.
final class ZimgGraphs: Sendable {
    private struct State {
        var graphs: [PlaneGeometry: (graph: ZimgGraph, use: Int)] = [:]
        var uses = 0
        /// Bytes of all graphs.
        var size = 0

        mutating func use(_ geometry: PlaneGeometry) -> ZimgGraph? {
            uses += 1
            guard let index = graphs.index(forKey: geometry) else { return nil }
            graphs.values[index].use = uses
            return graphs.values[index].graph
        }

        mutating func keep(_ graph: ZimgGraph, for geometry: PlaneGeometry, _ limit: Int, _ sizeLimit: Int) {
            guard geometry.graphSize <= sizeLimit else { return }
            drop(geometry)
            while graphs.count >= limit || size + geometry.graphSize > sizeLimit,
                let oldest = graphs.min(by: { $0.value.use < $1.value.use })
            {
                drop(oldest.key)
            }
            graphs[geometry] = (graph, uses)
            size += geometry.graphSize
        }

        private mutating func drop(_ geometry: PlaneGeometry) {
            if graphs.removeValue(forKey: geometry) != nil { size -= geometry.graphSize }
        }
    }

    private let limit: Int
    private let sizeLimit: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: Number of graphs that are kept.
    ///   - sizeLimit: Approximate bytes of all kept graphs. A thumbnail's graph has tens of kilobytes.
    init(limit: Int = 256, sizeLimit: Int = 16 << 20) {
        self.limit = limit
        self.sizeLimit = sizeLimit
    }

    /// - Returns: nil if zimg fails.
    func graph(_ geometry: PlaneGeometry) -> ZimgGraph? {
        if let known = state.withLock({ $0.use(geometry) }) { return known }
        // Built outside of the lock: two threads may build the same graph; the cache keeps one of them.
        guard let graph = ZimgGraph(geometry) else { return nil }
        state.withLock { $0.keep(graph, for: geometry, limit, sizeLimit) }
        return graph
    }
}

extension PlaneGeometry {
    /// Approximate bytes of zimg's coefficients: for Lanczos' kernel six coefficients of six bytes for each sample of
    /// the longer side of source and result, in both directions.
    fileprivate var graphSize: Int {
        36 * (max(source.width, size.width) + max(source.height, size.height))
    }
}
