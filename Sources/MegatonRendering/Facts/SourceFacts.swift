public import Foundation

/// Facts about a source image, found while its renditions were made. A cached rendition keeps them.
///
/// In JSON, facts that are nil or false are left out, except for `hasAlpha`.
public struct SourceFacts: Sendable, Hashable {
    /// Fields of the source's EXIF. Texts have at most 32 bytes.
    public struct EXIF: Sendable, Hashable, Codable {
        /// The time at which the image was taken, in ISO 8601, such as `2026-05-01T12:30:00+02:00`; without a zone if
        /// the source names none.
        public var date: String?
        /// Manufacturer of the camera.
        public var make: String?
        /// Model of the camera.
        public var model: String?
    }

    /// Pixels as stored, before orientation.
    public var width: Int
    /// Pixels as stored, before orientation.
    public var height: Int
    /// Number of bytes of the source.
    public var bytes: Int
    /// The format that its bytes have, such as `jpeg`.
    public var format: String
    /// EXIF orientation, 1 to 8.
    public var orientation: Int
    /// Number of frames of an animation, or of images in the file.
    public var frames: Int
    /// Whether its frames form an animation.
    public var isAnimated: Bool
    /// Whether it has an alpha channel.
    public var hasAlpha: Bool
    /// Whether it has Content Credentials (C2PA), which renditions do not keep.
    public var hasC2PA: Bool
    /// Whether it has a gain map for displays with a high dynamic range, which renditions do not keep.
    public var hasGainMap: Bool
    /// A blurred placeholder of at most 25 bytes, upright: see https://evanw.github.io/thumbhash/. Nil if the pixels
    /// were not sampled.
    public var thumbHash: Data?
    /// The color that most of its pixels have; nil if it is transparent, or if the pixels were not sampled.
    public var dominantColor: Color?
    /// A hash that is similar for images that look similar: they differ in few bits. Nil if the pixels were not
    /// sampled.
    public var perceptualHash: UInt64?
    /// Fields of its EXIF; nil if it has none of them.
    public var exif: EXIF?
}

extension SourceFacts {
    /// The facts that each source has.
    package init(width: Int, height: Int, bytes: Int, format: String, orientation: Int) {
        self.init(
            width: width,
            height: height,
            bytes: bytes,
            format: format,
            orientation: orientation,
            frames: 1,
            isAnimated: false,
            hasAlpha: false,
            hasC2PA: false,
            hasGainMap: false
        )
    }

    /// - Parameter pixels: Nil if none were sampled.
    init(_ probe: ImageProbe, _ data: Data, _ pixels: PixelFacts?) {
        let metadata = SourceMetadata(data, probe.type)
        self.init(
            width: probe.width,
            height: probe.height,
            bytes: data.count,
            format: probe.type.description,
            orientation: (1...8).contains(probe.orientation) ? probe.orientation : 1,
            frames: max(1, probe.frames),
            isAnimated: probe.isAnimated,
            hasAlpha: probe.hasAlpha,
            hasC2PA: metadata.hasC2PA,
            hasGainMap: metadata.hasGainMap,
            thumbHash: pixels.map { Data($0.thumbHash) },
            dominantColor: pixels?.dominantColor,
            perceptualHash: pixels?.perceptualHash,
            exif: metadata.exif
        )
    }

    /// The same facts, without those that were not asked for.
    package func keeping(exif keepsEXIF: Bool, perceptualHash keepsHash: Bool) -> SourceFacts {
        var facts = self
        if !keepsEXIF { facts.exif = nil }
        if !keepsHash { facts.perceptualHash = nil }
        return facts
    }

    /// The perceptual hash in JSON: 16 hex digits, so that every language reads it unchanged.
    package var perceptualHashText: String? {
        perceptualHash.map { hash in withUnsafeBytes(of: hash.bigEndian) { HexDigits.text($0) } }
    }
}

extension SourceFacts: Codable {
    enum CodingKeys: String, CodingKey {
        case width, height, bytes, format, orientation, frames, hasAlpha, gainMap, thumbHash, dominantColor, exif
        case isAnimated = "animated"
        case c2pa
        case perceptualHash = "phash"
    }

    /// - Throws: `DecodingError` if a fact is missing or has an impossible value.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        width = try fields.decode(Int.self, forKey: .width)
        height = try fields.decode(Int.self, forKey: .height)
        bytes = try fields.decode(Int.self, forKey: .bytes)
        format = try fields.decode(String.self, forKey: .format)
        orientation = try fields.decode(Int.self, forKey: .orientation)
        frames = try fields.decodeIfPresent(Int.self, forKey: .frames) ?? 1
        isAnimated = try fields.decodeIfPresent(Bool.self, forKey: .isAnimated) ?? false
        hasAlpha = try fields.decodeIfPresent(Bool.self, forKey: .hasAlpha) ?? false
        hasC2PA = try fields.decodeIfPresent(Bool.self, forKey: .c2pa) ?? false
        hasGainMap = try fields.decodeIfPresent(Bool.self, forKey: .gainMap) ?? false
        exif = try fields.decodeIfPresent(EXIF.self, forKey: .exif)
        thumbHash = try fields.decodeIfPresent(String.self, forKey: .thumbHash).map { text in
            guard let hash = Data(base64Encoded: text) else {
                throw Self.invalid(.thumbHash, "is no Base64", fields)
            }
            return hash
        }
        dominantColor = try fields.decodeIfPresent(String.self, forKey: .dominantColor).map { text in
            guard let color = Color(hex: text) else { throw Self.invalid(.dominantColor, "is no #rrggbb", fields) }
            return color
        }
        perceptualHash = try fields.decodeIfPresent(String.self, forKey: .perceptualHash).map { text in
            guard text.utf8.count == 16, let hash = UInt64(text, radix: 16) else {
                throw Self.invalid(.perceptualHash, "has no 16 hex digits", fields)
            }
            return hash
        }
    }

    private static func invalid(
        _ key: CodingKeys,
        _ problem: String,
        _ fields: KeyedDecodingContainer<CodingKeys>
    ) -> DecodingError {
        .dataCorruptedError(forKey: key, in: fields, debugDescription: "\(key.rawValue) \(problem)")
    }

    /// Encodes all facts except those that are nil or false.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(width, forKey: .width)
        try fields.encode(height, forKey: .height)
        try fields.encode(bytes, forKey: .bytes)
        try fields.encode(format, forKey: .format)
        try fields.encode(orientation, forKey: .orientation)
        try fields.encode(hasAlpha, forKey: .hasAlpha)
        if frames > 1 { try fields.encode(frames, forKey: .frames) }
        if isAnimated { try fields.encode(true, forKey: .isAnimated) }
        if hasC2PA { try fields.encode(true, forKey: .c2pa) }
        if hasGainMap { try fields.encode(true, forKey: .gainMap) }
        try fields.encodeIfPresent(thumbHash?.base64EncodedString(), forKey: .thumbHash)
        try fields.encodeIfPresent(dominantColor?.description, forKey: .dominantColor)
        try fields.encodeIfPresent(perceptualHashText, forKey: .perceptualHash)
        try fields.encodeIfPresent(exif, forKey: .exif)
    }
}

/// Facts that are computed from pixels.
package struct PixelFacts: Sendable, Equatable {
    let thumbHash: [UInt8]
    let dominantColor: Color?
    let perceptualHash: UInt64

    init(_ image: SmallImage) {
        thumbHash = ThumbHash.encode(image)
        dominantColor = DominantColor.color(of: image)
        perceptualHash = PerceptualHash.hash(image)
    }
}
