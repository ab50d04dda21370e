extension Rendition {
    /// The part of an image that cropping keeps: a compass point, or one found in the pixels.
    public enum Gravity: String, WordChoice {
        /// The written word stays `centre`: identifiers of processors contain it, and so do keys in caches.
        case center = "centre"
        case north, east, south, west
        case northEast = "northeast"
        case southEast = "southeast"
        case southWest = "southwest"
        case northWest = "northwest"
        /// The most salient part: skin, saturated colors, edges (libvips).
        case attention
        /// The part with the most detail (libvips).
        case entropy

        /// British spelling of ``center``.
        @available(*, deprecated, renamed: "center")
        public static var centre: Gravity { .center }

        public static let aliases: [String: Gravity] = ["center": .center, "smart": .attention]

        /// The word in help and messages: `center`, not the stored `centre`.
        public var preferredWord: String { self == .center ? "center" : rawValue }

        /// The offset within the surplus, in halves of it: 0 (left, top), 1 (middle) or 2 (right, bottom). Nil if the
        /// pixels decide.
        package var halves: (horizontal: Int, vertical: Int)? {
            switch self {
            case .northWest: (0, 0)
            case .north: (1, 0)
            case .northEast: (2, 0)
            case .west: (0, 1)
            case .center: (1, 1)
            case .east: (2, 1)
            case .southWest: (0, 2)
            case .south: (1, 2)
            case .southEast: (2, 2)
            case .attention, .entropy: nil
            }
        }
    }

    /// A point of the upright source, as fractions of its width and height: 0, 0 is the top left and 1, 1 the bottom
    /// right.
    public struct FocalPoint: Sendable, Hashable, Codable {
        /// 0 to 1.
        public var x: Double
        /// 0 to 1.
        public var y: Double

        /// Creates a point, with coordinates from 0 to 1.
        public init(x: Double, y: Double) {
            self.x = x
            self.y = y
        }

        enum CodingKeys: String, CodingKey, CaseIterable { case x, y }

        public init(from decoder: any Decoder) throws {
            let fields = try decoder.fields(
                CodingKeys.self,
                isChecked: false,
                allowed: #"an object such as {"x": 0.5, "y": 0.3}"#
            )
            func part(_ key: CodingKeys) throws -> Double {
                if let part = try fields.read(Double.self, key, allowed: "are numbers from 0 to 1") { return part }
                throw FieldProblem.error(at: decoder.codingPath + [key], "is missing; allowed are numbers from 0 to 1")
            }
            self.init(x: try part(.x), y: try part(.y))
        }
    }
}
