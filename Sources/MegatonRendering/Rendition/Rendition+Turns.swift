extension Rendition {
    /// A rotation of the upright source, clockwise.
    public enum Rotation: String, WordChoice {
        /// A quarter turn.
        case quarter = "90"
        /// A half turn.
        case half = "180"
        /// Three quarter turns.
        case threeQuarters = "270"

        /// Quarter turns: 1 to 3.
        var quarters: Int {
            switch self {
            case .quarter: 1
            case .half: 2
            case .threeQuarters: 3
            }
        }
    }

    /// A reflection of the rotated source.
    public enum Flip: String, WordChoice {
        /// Swaps left and right.
        case horizontal
        /// Swaps top and bottom.
        case vertical
        /// Swaps both, which is a half turn.
        case both

        var isHorizontal: Bool { self != .vertical }
        var isVertical: Bool { self != .horizontal }
    }

    /// Whether the rotation swaps width and height.
    var swapsSides: Bool { rotate == .quarter || rotate == .threeQuarters }
}

extension PixelSize {
    /// The size after the rotation of a rendition, or before it.
    func turned(by rendition: Rendition) -> PixelSize {
        rendition.swapsSides ? PixelSize(width: height, height: width) : self
    }
}

extension Rendition.FocalPoint {
    /// The same point after the rotation and the flip of a rendition.
    func turned(by rendition: Rendition) -> Self {
        var point = self
        for _ in 0..<(rendition.rotate?.quarters ?? 0) { point = Self(x: 1 - point.y, y: point.x) }
        if rendition.flip?.isHorizontal == true { point.x = 1 - point.x }
        if rendition.flip?.isVertical == true { point.y = 1 - point.y }
        return point
    }
}
