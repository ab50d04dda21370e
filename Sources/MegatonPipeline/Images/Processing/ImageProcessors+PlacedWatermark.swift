internal import Crypto

extension ImageProcessors {
    /// Draws a text or an image with the options of the watermarks of renditions: scale, margin and shift too.
    public struct PlacedWatermark: ImageProcessing, Hashable {
        private let watermark: Rendition.Watermark
        private let overlay: PlatformImage?
        private let checksum: String?

        /// - Parameters:
        ///   - watermark: The text or the image, its size and its place.
        ///   - overlay: The image of a watermark with `Rendition.Watermark.Content.image`; the name there is for
        ///     messages only. Nil for a text.
        public init(_ watermark: Rendition.Watermark, overlay: PlatformImage? = nil) {
            self.watermark = watermark
            self.overlay = overlay
            checksum = overlay.map {
                "\($0.size),\($0.bands)," + SHA256.hash(data: $0.pixels()).hexDigits
            }
        }

        public var identifier: String {
            ImageProcessors.identifier(
                "placed-watermark",
                [
                    "watermark": ImageProcessors.text(watermark.identity),
                    "overlay": checksum.map(ImageProcessors.text) ?? "none",
                ]
            )
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? marked(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid option, an image without an overlay, or a text that cannot be
        ///   drawn, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try marked($0, context.bounds) }
        }

        public static func == (one: PlacedWatermark, other: PlacedWatermark) -> Bool {
            one.identifier == other.identifier
        }

        public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }

        private func marked(_ image: PlatformImage, _ bounds: ProcessingBounds) throws(ImageError) -> PlatformImage {
            if let problem = watermark.problem { throw ImageProcessors.failure(identifier, "\(problem)") }
            if case .image = watermark.content, overlay == nil {
                throw ImageProcessors.failure(identifier, "an image watermark needs an overlay")
            }
            if watermark.opacity == 0 { return image }
            return try image.marked(with: watermark, overlay, digest: checksum, by: identifier, bounds)
        }
    }
}
