extension ImageProcessors {
    /// Rounds the corners of an image. Pixels outside of them become transparent; the size stays.
    public struct RoundedCorners: ImageProcessing, Hashable, CustomStringConvertible {
        /// Radius in pixels.
        private let radius: Double
        private let border: ImageProcessingOptions.Border?

        /// - Parameter radius: Radius in `unit`, limited to half of the shorter side.
        public init(
            radius: Double,
            unit: ImageProcessingOptions.Unit = .pixels,
            border: ImageProcessingOptions.Border? = nil
        ) {
            self.radius = unit.pixels(radius)
            self.border = border
        }

        public var identifier: String {
            ImageProcessors.identifier("rounded_corners", ["radius": "\(radius)", "border": border.name])
        }

        public var description: String {
            "RoundedCorners(radius: \(radius) pixels, border: \(border?.description ?? "nil"))"
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? rounded(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid radius or border, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try rounded($0, context.bounds) }
        }

        private func rounded(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard radius.isFinite, radius >= 0 else {
                throw ImageProcessors.failure(identifier, "the radius must be a number, 0 or more")
            }
            return try RoundedRectangle(size: image.size, radius: radius).cut(identifier, image, border, bounds)
        }
    }
}
