/// Parameter types of the processors.
public enum ImageProcessingOptions {
    /// How an image is scaled to a size.
    public typealias ContentMode = ImageProcessors.ContentMode

    /// The unit of a length.
    ///
    /// Nuke's default is `.points`, converted by the scale of the device's screen. A server has no screen, so the
    /// default is pixels.
    public enum Unit: Sendable, Hashable, CustomStringConvertible {
        case pixels
        /// Points of the client, each with the given number of pixels (its device pixel ratio).
        case points(scale: Double)

        public var description: String { if case .pixels = self { "pixels" } else { "points" } }

        func pixels(_ length: Double) -> Double {
            switch self {
            case .pixels: length
            case .points(let scale): length * scale
            }
        }
    }

    /// A line along the inner edge of a shape.
    public struct Border: Sendable, Hashable, CustomStringConvertible {
        /// Color of the border.
        public let color: Color
        /// Width in pixels.
        public let width: Double

        /// - Parameter width: Width in `unit`; 0 draws no line.
        public init(color: Color, width: Double = 1, unit: Unit = .pixels) {
            self.color = color
            self.width = unit.pixels(width)
        }

        public var description: String {
            "Border(color: \(color.description.uppercased()), width: \(width) pixels)"
        }
    }
}
