extension ImageProcessors {
    /// Removes colors: the result is gray, with the transparency of the image. A gray image stays unchanged.
    public struct Grayscale: ImageProcessing, Hashable {
        /// Creates the processor.
        public init() {}

        public var identifier: String { ImageProcessors.identifier("grayscale") }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? gray(image, ProcessingBounds()) }

        /// - Throws: `.outputTooLarge`, `.renderTimedOut`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try gray($0, context.bounds) }
        }

        private func gray(_ image: PlatformImage, _ bounds: ProcessingBounds) throws(ImageError) -> PlatformImage {
            if image.bands <= 2 { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in try pixels.grayscale() }
        }
    }
}
