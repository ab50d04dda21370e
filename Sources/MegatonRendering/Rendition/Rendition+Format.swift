extension Rendition {
    /// The output format.
    public enum Format: String, WordChoice {
        case jpeg, png, webp, avif, gif
        /// Available only after `VipsRuntime.allow([.jxl])`, because libvips does not trust its codec yet.
        case jxl

        public static let aliases: [String: Format] = ["jpg": .jpeg]

        /// The extension for file names.
        public var fileExtension: String { self == .jpeg ? "jpg" : rawValue }

        /// The media type of RFC 6838.
        public var mediaType: String { "image/\(rawValue)" }

        /// Whether the format keeps transparency.
        package var hasAlpha: Bool { self != .jpeg }

        /// Whether the format supports animations.
        var hasFrames: Bool { self == .gif || self == .webp }

        /// Whether `quality` has an effect.
        package var hasQuality: Bool { self != .png && self != .gif }

        /// Whether the format supports progressive or interlaced encoding, which shows a rough image first.
        var hasProgressive: Bool { self == .jpeg || self == .png }

        /// Whether the format supports both lossy and lossless encoding.
        var hasLossless: Bool { self == .webp || self == .jxl }

        /// Whether the chroma subsampling of the encoder can be chosen.
        var hasChroma: Bool { self == .jpeg || self == .avif }

        /// Whether the format can contain a color profile.
        var hasProfile: Bool { self != .gif }

        /// Whether EXIF can be written; libvips does not write it for JPEG XL (observed in 8.14.1).
        var hasMetadata: Bool { self != .gif && self != .jxl }

        /// The range of `effort`, from fast to small: libdeflate's levels for PNG (`PNGCompression`), libwebp's
        /// method, the inverse of libaom's speed for AVIF, the palette search for GIF, libjxl's effort. JPEG has none.
        var efforts: ClosedRange<Int>? {
            switch self {
            case .jpeg: nil
            case .png, .avif: 0...9
            case .webp: 0...6
            case .gif: 1...10
            case .jxl: 3...9
            }
        }

        /// The effort used if none is given. For AVIF, 2 is 1.6 to 2.3 times faster than 3 at the same size in bytes,
        /// and six times faster than 4.
        var defaultEffort: Int {
            switch self {
            case .jpeg: 0
            case .png: 6
            case .webp: 4
            case .avif: 2
            case .gif, .jxl: 7
            }
        }
    }
}
