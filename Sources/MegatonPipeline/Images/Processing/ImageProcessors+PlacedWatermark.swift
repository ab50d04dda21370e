extension ImageProcessors {
    /// Draws a text or an image with the options of the watermarks of renditions: scale, margin and shift too.
    public struct PlacedWatermark: ImageProcessing, Hashable {
        /// With the pixels of its image.
        private let watermark: Rendition.Watermark

        /// - Parameters:
        ///   - watermark: The text or the image, its size and its place.
        ///   - overlay: The image of a watermark with `Rendition.Watermark.Content.image`; the name there is for
        ///     messages only. Nil for a text.
        public init(_ watermark: Rendition.Watermark, overlay: PlatformImage? = nil) {
            var watermark = watermark
            if let overlay {
                watermark.overlay = WatermarkPixels(
                    digest: Watermark.checksum(overlay),
                    size: overlay.size,
                    bands: overlay.bands,
                    pixels: overlay.pixels()
                )
            }
            self.watermark = watermark
        }

        public var identifier: String {
            ImageProcessors.identifier("placed-watermark", ["watermark": ImageProcessors.text(watermark.identity)])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? marked(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid option, an image without an overlay, or a text that cannot be
        ///   drawn, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try marked($0, context.bounds) }
        }

        private func marked(_ image: PlatformImage, _ bounds: ProcessingBounds) throws(ImageError) -> PlatformImage {
            if let problem = watermark.problem { throw ImageProcessors.failure(identifier, "\(problem)") }
            if case .image = watermark.content, watermark.overlay == nil {
                throw ImageProcessors.failure(identifier, "an image watermark needs an overlay")
            }
            if watermark.opacity == 0 { return image }
            return try image.marked(with: watermark, by: identifier, bounds)
        }
    }
}
