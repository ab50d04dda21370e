extension ImageProcessors {
    /// Sharpens lightness; colors stay.
    public struct Sharpen: ImageProcessing, Hashable {
        private let sigma: Double
        private let flat: Double
        private let jagged: Double

        /// - Parameters:
        ///   - sigma: Standard deviation of the Gaussian that detects edges, in pixels: 0.01 to 10.
        ///   - flat: Strength in almost flat areas, 0 to 100. Makes noise visible.
        ///   - jagged: Strength at edges, 0 to 100.
        public init(sigma: Double = 0.5, flat: Double = 0, jagged: Double = 3) {
            self.sigma = sigma
            self.flat = flat
            self.jagged = jagged
        }

        public var identifier: String {
            ImageProcessors.identifier("sharpen", ["sigma": "\(sigma)", "flat": "\(flat)", "jagged": "\(jagged)"])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? sharpened(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for values out of range, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try sharpened($0, context.bounds) }
        }

        private func sharpened(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard (0.01...10).contains(sigma), (0...100).contains(flat), (0...100).contains(jagged) else {
                throw ImageProcessors.failure(identifier, "sigma must be 0.01 to 10, flat and jagged 0 to 100")
            }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                try pixels.sharpened(sigma, flat: flat, jagged: jagged).rounded()
            }
        }
    }
}
