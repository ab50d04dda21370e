extension Rendition {
    /// What is written.
    public enum Format: String, WordChoice {
        case jpeg, png, webp, avif, gif
        /// Only where `VipsRuntime.allow([.jxl])` has switched it on: libvips does not trust its codec yet.
        case jxl

        public static let aliases: [String: Format] = ["jpg": .jpeg]

        /// For file names.
        public var fileExtension: String { self == .jpeg ? "jpg" : rawValue }

        /// The media type of RFC 6838.
        public var mediaType: String { "image/\(rawValue)" }

        /// Whether transparency survives.
        public var hasAlpha: Bool { self != .jpeg }

        /// Whether it can show several frames.
        public var hasFrames: Bool { self == .gif || self == .webp }

        /// Whether `quality` changes anything.
        public var hasQuality: Bool { self != .png && self != .gif }

        /// Whether it can be written so that a rough picture comes first.
        public var isProgressive: Bool { self == .jpeg || self == .png }

        /// Whether there is a choice between loss and none.
        public var hasLossless: Bool { self == .webp || self == .jxl }

        /// Whether a colour profile can be written into it.
        public var hasProfile: Bool { self != .gif }

        /// Whether EXIF can be written into it; libvips does not for JPEG XL (seen in 8.14.1).
        public var hasMetadata: Bool { self != .gif && self != .jxl }

        /// The encoder's own numbers, from fast to small: zlib's level of PNG, libwebp's method, libaom's speed turned
        /// round, the palette search of GIF, libjxl's effort. JPEG has none.
        public var efforts: ClosedRange<Int>? {
            switch self {
            case .jpeg: nil
            case .png, .avif: 0...9
            case .webp: 0...6
            case .gif: 1...10
            case .jxl: 3...9
            }
        }

        /// AVIF's 2 is 1.6 to 2.3 times faster than 3 for the same bytes, and six times faster than 4.
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
