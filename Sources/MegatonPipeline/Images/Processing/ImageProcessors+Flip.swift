extension ImageProcessors {
    /// Mirrors an image.
    public struct Flip: ImageProcessing, Hashable {
        /// Directions of a flip.
        public enum Direction: String, Sendable, Codable, CaseIterable {
            /// Swaps left and right.
            case horizontal
            /// Swaps top and bottom.
            case vertical
            /// Swaps both, which rotates by 180 degrees.
            case both
        }

        private let direction: Direction

        /// Creates the processor.
        public init(_ direction: Direction) { self.direction = direction }

        public var identifier: String { ImageProcessors.identifier("flip", ["direction": direction.rawValue]) }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? flipped(image, ProcessingBounds()) }

        /// - Throws: `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try flipped($0, context.bounds) }
        }

        private func flipped(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let sides = try direction == .vertical ? pixels : pixels.flipped(vertically: false)
                return try direction == .horizontal ? sides : sides.flipped(vertically: true)
            }
        }
    }
}
