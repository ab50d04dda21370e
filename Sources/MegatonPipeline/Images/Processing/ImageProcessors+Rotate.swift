extension ImageProcessors {
    /// Rotates an image. The canvas grows to hold the whole rotated image.
    public struct Rotate: ImageProcessing, Hashable {
        /// 0 to less than 360; NaN if the input was not finite.
        private let degrees: Double
        private let background: Color?

        /// - Parameters:
        ///   - degrees: Angle in degrees, clockwise; any finite number. Multiples of 90 move pixels without loss.
        ///   - background: Color of the corners exposed at other angles; nil is transparent.
        public init(degrees: Double, background: Color? = nil) {
            let rest = degrees.truncatingRemainder(dividingBy: 360)
            // Adding 360 to a tiny negative rest rounds to 360.
            let turn = rest < 0 ? rest + 360 : rest
            self.degrees = turn == 360 || turn == 0 ? 0 : turn
            self.background = background
        }

        public var identifier: String {
            ImageProcessors.identifier("rotate", ["degrees": "\(degrees)", "background": background.name])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? rotated(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an angle that is not finite, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try rotated($0, context.bounds) }
        }

        private func rotated(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard degrees.isFinite else { throw ImageProcessors.failure(identifier, "the angle must be a number") }
            if degrees == 0 { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                if degrees.truncatingRemainder(dividingBy: 90) == 0 { return try pixels.turned(Int(degrees / 90)) }
                let (base, values) = try pixels.ready(for: background)
                return try base.rotated(degrees, values).rounded()
            }
        }
    }
}
