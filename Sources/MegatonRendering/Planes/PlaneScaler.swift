internal import CPlanes
internal import Foundation

/// Weights of the samples of one direction of a plane.
///
/// `@unchecked Sendable`: the weights are computed once and only read afterwards.
final class PlaneAxis: @unchecked Sendable {
    fileprivate let weights: OpaquePointer
    fileprivate let key: Key

    /// - Returns: nil if there is no memory, or if the part is empty or has many times the length of the source.
    init?(_ key: Key) {
        let isAcross: Int32 = key.isAcross ? 1 : 0
        guard
            let weights = megaton_axis_make(Int32(key.source), key.start, key.length, Int32(key.count), isAcross)
        else { return nil }
        self.weights = weights
        self.key = key
    }

    deinit { megaton_axis_free(weights) }

    /// In bytes.
    var size: Int { megaton_axis_size(weights) }

    struct Key: Hashable {
        let source: Int
        let start: Double
        let length: Double
        let count: Int
        let isAcross: Bool
    }
}

extension PlaneGeometry {
    /// The direction along the rows.
    var across: PlaneAxis.Key {
        PlaneAxis.Key(source: source.width, start: part.left, length: part.width, count: size.width, isAcross: true)
    }
    /// The direction along the columns.
    var down: PlaneAxis.Key {
        PlaneAxis.Key(source: source.height, start: part.top, length: part.height, count: size.height, isAcross: false)
    }
}

extension Plane {
    /// Scales the plane with Lanczos' kernel of three lobes. Beyond its edges the plane is mirrored.
    ///
    /// - Parameters:
    ///   - across: Weights of the rows, for at most as many samples as the plane has in one.
    ///   - down: Weights of the columns, for at most as many samples as the plane has rows.
    ///   - isPlain: Does without AVX2, for tests. The result is the same.
    /// - Returns: nil if there is no memory.
    func scaled(_ across: PlaneAxis, _ down: PlaneAxis, isPlain: Bool = false) -> Plane? {
        precondition(across.key.isAcross && across.key.source <= width)
        precondition(!down.key.isAcross && down.key.source <= height)
        guard let result = Plane(width: across.key.count, height: down.key.count) else { return nil }
        let code = megaton_scale(
            across.weights,
            down.weights,
            bytes,
            stride,
            result.bytes,
            result.stride,
            isPlain ? 1 : 0
        )
        return code == 0 ? result : nil
    }
}
