import Synchronization

/// The graphs that were used last. To build one takes several times as long as to run it once on a thumbnail, and pictures
/// of a batch have few sizes.
final class ScalingGraphs: Sendable {
    private struct State {
        var graphs: [PlaneGeometry: (graph: ScalingGraph, use: Int)] = [:]
        var uses = 0

        mutating func use(_ geometry: PlaneGeometry) -> ScalingGraph? {
            uses += 1
            guard let index = graphs.index(forKey: geometry) else { return nil }
            graphs.values[index].use = uses
            return graphs.values[index].graph
        }

        mutating func keep(_ graph: ScalingGraph, for geometry: PlaneGeometry, _ limit: Int) {
            if graphs.count >= limit, let oldest = graphs.min(by: { $0.value.use < $1.value.use }) {
                graphs[oldest.key] = nil
            }
            graphs[geometry] = (graph, uses)
        }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: how many are kept; each has tens of kilobytes.
    init(limit: Int = 256) { self.limit = limit }

    /// - Returns: nil where zimg cannot.
    func graph(_ geometry: PlaneGeometry) -> ScalingGraph? {
        if let known = state.withLock({ $0.use(geometry) }) { return known }
        // Built without the lock: two threads may build the same one, and one of them is kept.
        guard let graph = ScalingGraph(geometry) else { return nil }
        state.withLock { $0.keep(graph, for: geometry, limit) }
        return graph
    }
}
