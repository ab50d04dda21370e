import Synchronization

/// An LRU cache of the weights by which planes are scaled, one direction at a time. Computing them takes as long as
/// scaling a plane once, and the images of a batch often have few widths and heights.
final class PlaneAxes: Sendable {
    private struct State {
        var axes: [PlaneAxis.Key: (axis: PlaneAxis, use: Int)] = [:]
        var uses = 0
        /// Bytes of all weights.
        var size = 0

        mutating func use(_ key: PlaneAxis.Key) -> PlaneAxis? {
            uses += 1
            guard let index = axes.index(forKey: key) else { return nil }
            axes.values[index].use = uses
            return axes.values[index].axis
        }

        mutating func keep(_ axis: PlaneAxis, for key: PlaneAxis.Key, _ limit: Int, _ sizeLimit: Int) {
            guard axis.size <= sizeLimit else { return }
            drop(key)
            while axes.count >= limit || size + axis.size > sizeLimit,
                let oldest = axes.min(by: { $0.value.use < $1.value.use })
            {
                drop(oldest.key)
            }
            axes[key] = (axis, uses)
            size += axis.size
        }

        private mutating func drop(_ key: PlaneAxis.Key) {
            if let known = axes.removeValue(forKey: key) { size -= known.axis.size }
        }
    }

    private let limit: Int
    private let sizeLimit: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: Number of directions that are kept.
    ///   - sizeLimit: Bytes of all weights. Those of a thumbnail's side have tens of kilobytes.
    init(limit: Int = 256, sizeLimit: Int = 8 << 20) {
        self.limit = limit
        self.sizeLimit = sizeLimit
    }

    /// Scales a part of a plane, which has at least the samples of the geometry's source.
    ///
    /// - Returns: nil if there is no memory.
    func scale(_ plane: Plane, _ geometry: PlaneGeometry) -> Plane? {
        guard let across = axis(geometry.across), let down = axis(geometry.down) else { return nil }
        return plane.scaled(across, down)
    }

    /// - Returns: nil if there is no memory.
    func axis(_ key: PlaneAxis.Key) -> PlaneAxis? {
        if let known = state.withLock({ $0.use(key) }) { return known }
        // Computed outside of the lock: two threads may compute the same weights; the cache keeps one of them.
        guard let axis = PlaneAxis(key) else { return nil }
        state.withLock { $0.keep(axis, for: key, limit, sizeLimit) }
        return axis
    }
}
