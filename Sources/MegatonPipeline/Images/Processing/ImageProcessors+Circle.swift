extension ImageProcessors {
    /// Crops the largest circle from the center of an image. Pixels outside of it become transparent.
    public struct Circle: ImageProcessing, Hashable, CustomStringConvertible {
        private let border: ImageProcessingOptions.Border?

        /// Creates the processor, with a border around the circle if there is one.
        public init(border: ImageProcessingOptions.Border? = nil) { self.border = border }

        public var identifier: String { ImageProcessors.identifier("circle", ["border": border.name]) }

        public var description: String { "Circle(border: \(border?.description ?? "nil"))" }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? circle(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid border, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try circle($0, context.bounds) }
        }

        private func circle(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            let side = min(image.size.width, image.size.height)
            let square = PixelSize(width: side, height: side)
            let shape = RoundedRectangle(size: square, radius: Double(side) / 2)
            let (left, top) = ((image.size.width - side) / 2, (image.size.height - side) / 2)
            return try shape.cut(identifier, image, border, bounds) { pixels throws(VipsError) in
                square == image.size ? pixels : try pixels.extract(left, top, square)
            }
        }
    }
}

extension Optional where Wrapped == ImageProcessingOptions.Border {
    /// The text for identifiers.
    var name: String { map { "\($0.color):\($0.width)" } ?? "none" }
}
