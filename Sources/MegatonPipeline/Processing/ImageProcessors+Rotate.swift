extension ImageProcessors {
    /// Turns a picture. The canvas becomes as large as the turned picture needs.
    public struct Rotate: ImageProcessing, Hashable {
        /// 0 to less than 360; as it came where it is no number.
        private let degrees: Double
        private let background: Color?

        /// - Parameters:
        ///   - degrees: clockwise, any number. Quarters of a turn move pixels, and lose nothing.
        ///   - background: of the corners that become free at other angles; nil is transparent.
        public init(degrees: Double, background: Color? = nil) {
            let rest = degrees.truncatingRemainder(dividingBy: 360)
            // A tiny negative rest and 360 add up to 360.
            let turn = rest < 0 ? rest + 360 : rest
            self.degrees = turn == 360 || turn == 0 ? 0 : turn
            self.background = background
        }

        public var identifier: String {
            ImageProcessors.identifier("rotate", ["degrees": "\(degrees)", "background": background.name])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? rotated(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an angle that is none, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try rotated($0, context.bounds) }
        }

        private func rotated(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImagePipeline.Error) -> PlatformImage {
            guard degrees.isFinite else { throw ImageProcessors.failure(identifier, "the angle must be a number") }
            if degrees == 0 { return image }
            return try image.changed(by: identifier, bounds) { picture throws(VipsError) in
                if degrees.truncatingRemainder(dividingBy: 90) == 0 { return try picture.turned(Int(degrees / 90)) }
                let (base, values) = try picture.ready(for: background)
                return try base.rotated(degrees, values).rounded()
            }
        }
    }
}
