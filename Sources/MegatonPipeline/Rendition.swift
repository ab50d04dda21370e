/// One picture to be made from a source: its size, how it fits, and how it is encoded.
///
/// Whatever changes a byte of the result is a property here and part of `identity`.
public struct Rendition: Sendable, Hashable {
    /// How the source's rectangle meets the wanted one; the words of CSS `object-fit` and sharp.
    public enum Fit: String, Sendable, Codable, CaseIterable {
        /// As large as fits within width x height, keeping the aspect.
        case inside
        /// Covers width x height, keeping the aspect; what sticks out is cut off evenly.
        case cover
        /// As `inside`, then filled up to width x height with the background.
        case contain
        /// Exactly width x height, the aspect given up.
        case fill
        /// As small as covers width x height, keeping the aspect; nothing is cut off.
        case outside
    }

    /// What is written.
    public enum Format: String, Sendable, Codable, CaseIterable {
        case jpeg, png, webp, avif

        /// For file names.
        public var fileExtension: String { self == .jpeg ? "jpg" : rawValue }

        /// The media type of RFC 6838.
        public var mediaType: String { "image/\(rawValue)" }

        /// Whether transparency survives.
        public var hasAlpha: Bool { self != .jpeg }
    }

    /// Stands in output names: letters, digits, `.`, `_` and `-`.
    public var name: String
    /// Pixels; nil leaves that side to the other one and the aspect.
    public var width: Int?
    /// Pixels; nil leaves that side to the other one and the aspect.
    public var height: Int?
    public var fit: Fit
    public var format: Format
    /// 1 to 100; PNG ignores it.
    public var quality: Int
    /// Behind transparent pixels and in the bars of `contain`.
    public var background: Color

    /// - Parameter name: `<width>x<height>` if nil.
    public init(
        name: String? = nil,
        width: Int? = nil,
        height: Int? = nil,
        fit: Fit = .inside,
        format: Format = .jpeg,
        quality: Int = 80,
        background: Color = .white
    ) {
        self.name = name ?? "\(width.map(String.init) ?? "")x\(height.map(String.init) ?? "")"
        self.width = width
        self.height = height
        self.fit = fit
        self.format = format
        self.quality = quality
        self.background = background
    }

    /// Everything but the name, in a fixed order: two renditions with the same identity have the same bytes.
    public var identity: [String] {
        [
            width.map(String.init) ?? "", height.map(String.init) ?? "", fit.rawValue, format.rawValue,
            format == .png ? "" : String(quality), background.description,
        ]
    }

    /// Says what is wrong with the values, or nil.
    public var complaint: String? {
        if width == nil && height == nil { return "a rendition needs a width, a height or both" }
        for side in [width, height] {
            if let side, !(1...Self.maximumSide).contains(side) {
                return "width and height are 1 to \(Self.maximumSide) pixels"
            }
        }
        if !(1...100).contains(quality) { return "quality is 1 to 100" }
        let isPlain = name.utf8.allSatisfy { byte in
            (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || [45, 46, 95].contains(byte)
        }
        if name.isEmpty || name.utf8.count > 64 || !isPlain || name.hasPrefix(".") {
            return "a rendition's name is 1 to 64 letters, digits, '.', '_' or '-', and does not start with '.'"
        }
        if fit != .inside && fit != .outside && (width == nil || height == nil) {
            return "fit \(fit.rawValue) needs both width and height"
        }
        return nil
    }

    /// The largest side that may be asked for, pixels.
    public static let maximumSide = 8192
}
