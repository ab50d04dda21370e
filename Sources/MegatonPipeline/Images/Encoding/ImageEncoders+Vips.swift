public import Foundation

extension ImageEncoders {
    /// Encodes one format with the options of the initializer; others, such as `Rendition.chroma`, have their defaults.
    public struct Vips: ImageEncoding, Hashable {
        /// The format and its options; the size has no effect.
        private let rendition: Rendition
        private let time: Duration

        /// - Parameters:
        ///   - quality: 1 to 100; PNG and GIF ignore it.
        ///   - progressive: JPEG with several scans, or interlaced PNG.
        ///   - effort: Effort of the encoder, as `Rendition.effort`; nil is the format's default.
        ///   - lossless: WebP and JPEG XL without loss.
        ///   - background: Color behind transparent pixels, for formats without transparency.
        ///   - maxBytes: Maximum size, for which the quality is lowered, as `Rendition.maxBytes`; nil for none.
        ///   - time: Time limit of the encoder.
        public init(
            format: Rendition.Format,
            quality: Int = 80,
            progressive: Bool = false,
            effort: Int? = nil,
            lossless: Bool = false,
            background: Color = .white,
            maxBytes: Int? = nil,
            time: Duration = .seconds(30)
        ) {
            var rendition = Rendition(
                // In the message about an image that is too large.
                name: format.rawValue,
                format: format,
                quality: quality,
                background: background,
                progressive: progressive,
                effort: effort,
                lossless: lossless
            )
            rendition.maxBytes = maxBytes
            self.rendition = rendition
            self.time = time
        }

        /// A message about the first invalid option, or nil. `encode` returns nil if there is one.
        public var validationError: String? { rendition.encodingProblem?.description }

        /// Identifies everything that changes a byte; part of cache keys.
        public var identifier: String {
            let format = rendition.format
            var fields = ["format=\(format.rawValue)"]
            if format.hasQuality { fields.append("quality=\(rendition.quality)") }
            if !format.hasAlpha { fields.append("background=\(rendition.background)") }
            return "megaton/encoder?" + (fields + rendition.encodingIdentity).joined(separator: ",")
        }

        public func encode(_ image: PlatformImage) -> Data? {
            try? encoded(image)  // Nuke's nil cannot carry a reason; `encoded(_:context:)` throws it.
        }

        /// - Throws: `.encodingFailed`, `.outputTooLarge` if no quality has at most `maxBytes`, `.renderTimedOut`.
        public func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data? {
            try encoded(container.image)
        }

        func encoded(_ image: PlatformImage) throws(ImageError) -> Data {
            if let validationError {
                throw ImageError(
                    .encodingFailed,
                    "\(rendition.format.rawValue) cannot be written: \(validationError)."
                )
            }
            return try VipsEngine().encode(image, rendition, RenderDeadline(.now + time))
        }
    }
}
