public import Foundation

/// The format of a file, detected from its bytes alone, because a name or a header field can be wrong.
///
/// Nuke's `AssetType`, which here also uses the compatible brands to distinguish AVIF from HEIC (ISO/IEC 23000-22
/// section 7).
public struct AssetType: Sendable, Hashable, CustomStringConvertible {
    /// A short lowercase name, e.g. `jpeg`.
    public let description: String
    /// The media type of RFC 6838.
    public let mediaType: String

    private init(_ name: String, _ mediaType: String) {
        description = name
        self.mediaType = mediaType
    }

    /// JPEG.
    public static let jpeg = AssetType("jpeg", "image/jpeg")
    /// PNG.
    public static let png = AssetType("png", "image/png")
    /// GIF.
    public static let gif = AssetType("gif", "image/gif")
    /// WebP.
    public static let webp = AssetType("webp", "image/webp")
    /// Single images are decoded; a sequence, whose major brand is `avis`, is refused with `.unsupportedFormat`.
    public static let avif = AssetType("avif", "image/avif")
    /// HEIC.
    public static let heic = AssetType("heic", "image/heic")
    /// TIFF.
    public static let tiff = AssetType("tiff", "image/tiff")
    /// BMP.
    public static let bmp = AssetType("bmp", "image/bmp")
    /// Windows icon.
    public static let ico = AssetType("ico", "image/x-icon")
    /// JPEG 2000.
    public static let jp2 = AssetType("jp2", "image/jp2")
    /// JPEG XL.
    public static let jxl = AssetType("jxl", "image/jxl")
    /// SVG.
    public static let svg = AssetType("svg", "image/svg+xml")
    /// Photoshop.
    public static let psd = AssetType("psd", "image/vnd.adobe.photoshop")
    /// MP4 video.
    public static let mp4 = AssetType("mp4", "video/mp4")
    /// M4V video.
    public static let m4v = AssetType("m4v", "video/x-m4v")
    /// QuickTime video.
    public static let mov = AssetType("mov", "video/quicktime")
    /// PDF.
    public static let pdf = AssetType("pdf", "application/pdf")
    /// HTML, for example an error page in the place of an image.
    public static let html = AssetType("html", "text/html")

    /// The formats that are decoded by default.
    public static let supported: Set<AssetType> = [.jpeg, .png, .gif, .webp, .avif, .heic]

    /// Detects the format from the first bytes; nil if it is unknown.
    public init?(_ data: Data) {
        let head = [UInt8](data.prefix(512))
        func starts(_ bytes: [UInt8], at offset: Int = 0) -> Bool {
            head.count >= offset + bytes.count && Array(head[offset..<(offset + bytes.count)]) == bytes
        }
        func starts(_ text: String, at offset: Int = 0) -> Bool { starts(Array(text.utf8), at: offset) }

        if starts([0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if starts([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            self = .png
        } else if starts("GIF87a") || starts("GIF89a") {
            self = .gif
        } else if starts("RIFF") && starts("WEBP", at: 8) {
            self = .webp
        } else if starts("ftyp", at: 4), let type = Self.isoBaseMedia(head) {
            self = type
        } else if starts([0x49, 0x49, 0x2A, 0x00]) || starts([0x4D, 0x4D, 0x00, 0x2A]) {
            self = .tiff
        } else if starts([0xFF, 0x0A]) || starts([0, 0, 0, 0x0C, 0x4A, 0x58, 0x4C, 0x20]) {
            self = .jxl
        } else if starts([0, 0, 0, 0x0C, 0x6A, 0x50]) || starts([0xFF, 0x4F, 0xFF, 0x51]) {
            self = .jp2
        } else if starts("BM") {
            self = .bmp
        } else if starts([0, 0, 1, 0]) {
            self = .ico
        } else if starts("%PDF") {
            self = .pdf
        } else if starts("8BPS") {
            self = .psd
        } else if let type = Self.markup(head) {
            self = type
        } else {
            return nil
        }
    }

    /// Checks the major brand, then the compatible ones: `mif1` with `avif` among its brands is AVIF.
    private static func isoBaseMedia(_ head: [UInt8]) -> AssetType? {
        let length = min(head.count, Int(head[2]) << 8 | Int(head[3]))
        guard length >= 12 else { return nil }
        let brands = stride(from: 8, to: length - 3, by: 4).filter { $0 != 12 }.map {
            String(decoding: head[$0..<($0 + 4)], as: UTF8.self)
        }
        let heic: Set = ["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"]
        for brand in brands {
            if brand == "avif" || brand == "avis" { return .avif }
            if heic.contains(brand) { return .heic }
        }
        // For movies only the major brand is checked. A movie with an image brand among its compatible ones, which is
        // rare, is taken for an image.
        let mp4: Set = ["isom", "iso2", "iso4", "iso5", "iso6", "mp41", "mp42", "mmp4", "avc1", "dash"]
        if mp4.contains(brands[0]) { return .mp4 }
        if ["M4V ", "M4VH", "M4VP"].contains(brands[0]) { return .m4v }
        return brands[0] == "qt  " ? .mov : nil
    }

    /// Whether an AVIF file is primarily an image sequence: its major brand is `avis` (AV1 Image File Format, "AVIF
    /// image sequence brand").
    package static func isSequence(_ avif: Data) -> Bool { avif.dropFirst(8).prefix(4).elementsEqual("avis".utf8) }

    /// The size in the first image properties (`ispe`, ISO/IEC 23008-12 section 6.5.3) of AVIF and HEIC, which are near
    /// the start of the file.
    package func declaredSize(_ data: Data) -> PixelSize? {
        guard self == .avif || self == .heic else { return nil }
        let head = data.prefix(64 * 1024)
        guard let name = head.range(of: Data("ispe".utf8)), head.endIndex - name.upperBound >= 12 else { return nil }
        func number(at offset: Int) -> Int {
            head[(name.upperBound + offset)...].prefix(4).reduce(0) { $0 << 8 | Int($1) }
        }
        return PixelSize(width: number(at: 4), height: number(at: 8))
    }

    private static func markup(_ head: [UInt8]) -> AssetType? {
        let text = String(decoding: head, as: UTF8.self).lowercased()
        let start = text.drop { $0.isWhitespace || $0 == "\u{FEFF}" }
        if start.hasPrefix("<!doctype html") || start.hasPrefix("<html") { return .html }
        if start.hasPrefix("<svg") || (start.hasPrefix("<?xml") && text.contains("<svg")) { return .svg }
        return nil
    }
}
