extension Rendition {
    /// Pixels that are added around the image, outside of its size, in the order of CSS.
    ///
    /// In JSON one number for all sides, or a list of four: top, right, bottom, left.
    public struct Padding: Sendable, Hashable {
        /// Pixels above the image.
        public var top: Int
        /// Pixels to the right of the image.
        public var right: Int
        /// Pixels below the image.
        public var bottom: Int
        /// Pixels to the left of the image.
        public var left: Int

        /// The same number of pixels on each side.
        public init(_ pixels: Int) { self.init(top: pixels, right: pixels, bottom: pixels, left: pixels) }

        /// A number of pixels for each side.
        public init(top: Int, right: Int, bottom: Int, left: Int) {
            self.top = top
            self.right = right
            self.bottom = bottom
            self.left = left
        }

        /// Nil unless there are one or four numbers.
        init?(_ numbers: [Int]) {
            switch numbers.count {
            case 1: self.init(numbers[0])
            case 4: self.init(top: numbers[0], right: numbers[1], bottom: numbers[2], left: numbers[3])
            default: return nil
            }
        }

        /// The numbers for JSON: one if all are equal.
        var numbers: [Int] {
            let all = [top, right, bottom, left]
            return Set(all).count == 1 ? [top] : all
        }
    }
}

extension Rendition.Padding: Codable {
    static let allowed = "are a whole number of pixels or four of them: [top, right, bottom, left]"

    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        var numbers: [Int]?
        if let one = try? decoder.singleValueContainer().decode(Int.self) {
            numbers = [one]
        } else if let list = try? decoder.singleValueContainer().decode([Int].self), list.count == 4 {
            numbers = list
        }
        guard let padding = numbers.flatMap(Self.init) else {
            let value = JSONTree.shown(from: decoder).shown
            throw FieldProblem.error(at: decoder.codingPath, "is \(value); allowed \(Self.allowed)")
        }
        self = padding
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if numbers.count == 1 { try container.encode(numbers[0]) } else { try container.encode(numbers) }
    }
}

extension PixelSize {
    func padded(by padding: Rendition.Padding?) -> PixelSize {
        guard let padding else { return self }
        return PixelSize(
            width: width + padding.left + padding.right,
            height: height + padding.top + padding.bottom
        )
    }
}
