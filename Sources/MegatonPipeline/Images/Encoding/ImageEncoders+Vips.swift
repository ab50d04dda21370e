public import Foundation

extension ImageEncoders {
    /// Encodes one format with its options.
    public struct Vips: ImageEncoding, Hashable {
        private let options: EncodingOptions
        private let background: Color
        private let time: Duration

        /// - Parameters:
        ///   - quality: 1 to 100; PNG and GIF ignore it.
        ///   - progressive: JPEG with several scans, or interlaced PNG.
        ///   - effort: A value from `Rendition.Format.efforts`; nil is the format's default.
        ///   - lossless: WebP and JPEG XL without loss.
        ///   - background: Color behind transparent pixels, for formats without transparency.
        ///   - time: Time limit of the encoder.
        public init(
            format: Rendition.Format,
            quality: Int = 80,
            progressive: Bool = false,
            effort: Int? = nil,
            lossless: Bool = false,
            background: Color = .white,
            time: Duration = .seconds(30)
        ) {
            options = EncodingOptions(
                format: format,
                quality: quality,
                progressive: progressive,
                effort: effort,
                lossless: lossless
            )
            self.background = background
            self.time = time
        }

        /// A message about the first invalid option, or nil. `encode` returns nil if there is one.
        public var complaint: String? { options.complaint }

        /// Identifies everything that changes a byte; part of cache keys.
        public var identifier: String {
            let format = options.format
            var fields = ["format=\(format.rawValue)"]
            if format.hasQuality { fields.append("quality=\(options.quality)") }
            if !format.hasAlpha { fields.append("background=\(background)") }
            return "megaton/encoder?" + (fields + options.identity).joined(separator: ",")
        }

        public func encode(_ image: PlatformImage) -> Data? {
            try? encoded(image)  // Nuke's nil cannot carry a reason; `encoded(_:context:)` throws it.
        }

        /// - Throws: `.encodingFailed`, `.renderTimedOut`.
        public func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data? {
            try encoded(container.image)
        }

        func encoded(_ image: PlatformImage) throws(ImageError) -> Data {
            if let complaint {
                throw ImageError(
                    .encodingFailed,
                    "\(options.format.rawValue) cannot be written: \(complaint)."
                )
            }
            return try VipsEngine().encode(image, options, background, RenderDeadline(.now + time))
        }
    }
}
