/// What processors' parameters are made of.
public enum ImageProcessingOptions {
    /// How a picture meets a size.
    public typealias ContentMode = ImageProcessors.ContentMode

    /// What a length is counted in.
    ///
    /// Nuke's default is `.points`, of which the device's screen knows how many pixels each is. A server has no screen.
    public enum Unit: Sendable, Hashable, CustomStringConvertible {
        case pixels
        /// So many pixels each, the client's device pixel ratio.
        case points(scale: Double)

        public var description: String { if case .pixels = self { "pixels" } else { "points" } }

        func pixels(_ length: Double) -> Double {
            switch self {
            case .pixels: length
            case .points(let scale): length * scale
            }
        }
    }

    /// A line along the inner side of a shape's edge.
    public struct Border: Sendable, Hashable, CustomStringConvertible {
        public let color: Color
        /// Pixels.
        public let width: Double

        /// - Parameter width: in `unit`; 0 is no line.
        public init(color: Color, width: Double = 1, unit: Unit = .pixels) {
            self.color = color
            self.width = unit.pixels(width)
        }

        public var description: String {
            "Border(color: \(color.description.uppercased()), width: \(width) pixels)"
        }
    }
}
