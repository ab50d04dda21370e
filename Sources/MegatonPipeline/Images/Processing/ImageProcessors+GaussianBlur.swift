extension ImageProcessors {
    /// Blurs an image and keeps its size. Edge pixels are extended outward, so an opaque image stays opaque.
    public struct GaussianBlur: ImageProcessing, Hashable, CustomStringConvertible {
        /// The largest radius, in pixels; the work grows with it.
        static let most = 250

        private let radius: Int

        /// - Parameter radius: Standard deviation of the Gaussian, in pixels; Nuke approximates it with three boxes. 0
        ///   and less leave the image unchanged; more than 250 is refused.
        public init(radius: Int = 8) { self.radius = max(0, radius) }

        public var identifier: String { ImageProcessors.identifier("gaussian_blur", ["radius": "\(radius)"]) }

        public var description: String { "GaussianBlur(radius: \(radius))" }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? blurred(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for a radius that is too large, `.outputTooLarge`, `.renderTimedOut`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try blurred($0, context.bounds) }
        }

        private func blurred(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            if radius == 0 { return image }
            guard radius <= Self.most else {
                throw ImageProcessors.failure(identifier, "the radius must be at most \(Self.most) pixels")
            }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                try pixels.premultiplied { colors throws(VipsError) in try colors.blurred(Double(radius)) }
            }
        }
    }
}
