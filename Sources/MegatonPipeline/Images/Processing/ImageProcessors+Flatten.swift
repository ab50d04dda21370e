extension ImageProcessors {
    /// Blends transparency into a background color and removes alpha. An opaque image stays unchanged.
    public struct Flatten: ImageProcessing, Hashable {
        private let background: Color

        /// Creates the processor.
        public init(background: Color = .white) { self.background = background }

        public var identifier: String {
            ImageProcessors.identifier("flatten", ["background": background.description])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? flattened(image, ProcessingBounds()) }

        /// - Throws: `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try flattened($0, context.bounds) }
        }

        private func flattened(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard image.hasAlpha else { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let base = background.isGray ? pixels : try pixels.inColor()
                return try base.flatten(background: background.channels(gray: base.bands <= 2))
            }
        }
    }
}
