extension ImageProcessors {
    /// Removes borders of the color of the top left pixel. An image of one color stays unchanged.
    public struct Trim: ImageProcessing, Hashable {
        private let tolerance: Int

        /// - Parameter tolerance: A pixel belongs to a border if none of its channels differs by more than this, 0 to
        ///   255.
        public init(tolerance: Int = 10) { self.tolerance = tolerance }

        public var identifier: String { ImageProcessors.identifier("trim", ["tolerance": "\(tolerance)"]) }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? trimmed(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid tolerance, `.renderTimedOut`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try trimmed($0, context.bounds) }
        }

        private func trimmed(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard (0...255).contains(tolerance) else {
                throw ImageProcessors.failure(identifier, "the tolerance must be 0 to 255")
            }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let box = try pixels.content(tolerance: tolerance) { bounds.deadline.isExpired }
                return try pixels.extract(box.left, box.top, box.size)
            }
        }
    }
}
