internal import Foundation

/// Parts of a source beside its pixels, found without a decoder. Damage is no error here: a part that cannot be read is
/// not there.
///
/// `HeaderBounds` and `HEIFBounds` have limited the number of segments, chunks and boxes before.
struct SourceMetadata {
    /// Whether it has a manifest of Content Credentials (C2PA specification 2.1, section 11.3).
    private(set) var hasC2PA = false
    private(set) var hasGainMap = false
    private(set) var exif: SourceFacts.EXIF?

    init(_ data: Data, _ type: AssetType) {
        data.withUnsafeBytes { bytes in
            switch type {
            case .jpeg: readJPEG(bytes)
            case .png: readPNG(bytes)
            case .webp: readWebP(bytes)
            case .avif, .heic:
                readBoxes(bytes)
                readHEIF(bytes)
            case .jxl: readBoxes(bytes)
            case .tiff: exif = SourceEXIF.read(bytes)
            default: break
            }
        }
    }

    // MARK: - JPEG

    /// Segments before the first scan.
    private mutating func readJPEG(_ bytes: UnsafeRawBufferPointer) {
        // A gain map is a second image in the file, which the first one lists, and describes in its XMP.
        var (hasSecondImage, isDescribed) = (false, false)
        for segment in JPEGMarkers(bytes) {
            if segment.marker == JPEGMarkers.startOfScan { break }
            guard (0xE0...0xEF).contains(segment.marker), segment.start + 4 <= segment.end, segment.end <= bytes.count
            else { continue }
            let body = UnsafeRawBufferPointer(rebasing: bytes[(segment.start + 4)..<segment.end])
            switch segment.marker {
            case 0xE1 where body.starts(with: "Exif\0\0".utf8):
                exif = exif ?? SourceEXIF.read(UnsafeRawBufferPointer(rebasing: body[6...]))
            case 0xE1 where body.starts(with: Self.xmp):
                // `hdrgm` is the namespace of gain maps; in a list of images (GContainer), their name is GainMap.
                isDescribed = isDescribed || Self.contains("hdrgm:", body) || Self.contains("\"GainMap\"", body)
            case 0xE2 where body.starts(with: "MPF\0".utf8): hasSecondImage = true
            case 0xE2 where body.starts(with: Self.isoGainMap): hasGainMap = true
            case 0xEB: hasC2PA = hasC2PA || Self.isC2PA(segment: body)
            default: break
            }
        }
        if hasSecondImage && isDescribed { hasGainMap = true }
    }

    private static let xmp = Array("http://ns.adobe.com/xap/1.0/\0".utf8)
    /// Identifier of the segment by which a JPEG says that it has a gain map (ISO 21496-1).
    private static let isoGainMap = Array("urn:iso:std:iso:ts:21496:-1\0".utf8)

    /// Whether a segment begins the box of a manifest store (ISO/IEC 19566-5 annex D): a mark, two numbers, and the
    /// header of a box `jumb`, whose first box is a `jumd` with the store's type.
    private static func isC2PA(segment: UnsafeRawBufferPointer) -> Bool {
        guard segment.starts(with: "JP".utf8), segment.count > 16 else { return false }
        // A box of more than 4 GiB has its length after its type.
        let isLong = segment[8] == 0 && segment[9] == 0 && segment[10] == 0 && segment[11] == 1
        return segment[12..<16].elementsEqual("jumb".utf8) && isManifestStore(segment.dropFirst(isLong ? 24 : 16))
    }

    /// Whether the content of a box `jumb` is a manifest store: the type in its description begins with `c2pa`.
    private static func isManifestStore(_ content: Slice<UnsafeRawBufferPointer>) -> Bool {
        content.dropFirst(4).starts(with: "jumdc2pa".utf8)
    }

    // MARK: - Chunks

    private mutating func readPNG(_ bytes: UnsafeRawBufferPointer) {
        for chunk in ImageChunks.png(bytes).prefix(HeaderBounds.parts) {
            if chunk.name == "caBX" { hasC2PA = true }
            if chunk.name == "eXIf", chunk.content.upperBound <= bytes.count {
                exif = exif ?? SourceEXIF.read(UnsafeRawBufferPointer(rebasing: bytes[chunk.content]))
            }
        }
    }

    private mutating func readWebP(_ bytes: UnsafeRawBufferPointer) {
        for chunk in ImageChunks.riff(bytes).prefix(HeaderBounds.parts) {
            if chunk.name == "C2PA" { hasC2PA = true }
            if chunk.name == "EXIF", chunk.content.upperBound <= bytes.count {
                let content = bytes[chunk.content]
                // Some programs write the identifier that only JPEG needs.
                let tiff = content.starts(with: "Exif\0\0".utf8) ? content.dropFirst(6) : content
                exif = exif ?? SourceEXIF.read(UnsafeRawBufferPointer(rebasing: tiff))
            }
        }
    }

    // MARK: - Boxes

    /// Type of the box of a manifest store in ISO base media files: D8FEC3D6-1B0E-483C-9297-5828877EC481.
    private static let c2paBox: [UInt8] = [
        0xD8, 0xFE, 0xC3, 0xD6, 0x1B, 0x0E, 0x48, 0x3C, 0x92, 0x97, 0x58, 0x28, 0x87, 0x7E, 0xC4, 0x81,
    ]

    /// The outermost boxes.
    private mutating func readBoxes(_ bytes: UnsafeRawBufferPointer) {
        var (reader, count) = (ByteReader(bytes, 0..<bytes.count), 0)
        // A box that is cut off ends the file.
        while count < HEIFBounds.boxes, let box = (try? reader.box()) ?? nil {
            count += 1
            switch box.type {
            case "uuid":
                let type = bytes[(box.content.lowerBound - 16)..<box.content.lowerBound]
                if type.elementsEqual(Self.c2paBox) { hasC2PA = true }
            // Boxes of JPEG XL.
            case "jumb": if Self.isManifestStore(bytes[box.content]) { hasC2PA = true }
            case "jhgm": hasGainMap = true
            default: break
            }
        }
    }

    /// Items and properties of a HEIF or AVIF file.
    private mutating func readHEIF(_ bytes: UnsafeRawBufferPointer) {
        guard let file = try? HEIFFile(bytes) else { return }
        hasGainMap =
            file.items.values.contains { $0.type == "tmap" }
            || file.properties.contains { property in
                property.type == "auxC"
                    && Self.contains("hdrgainmap", UnsafeRawBufferPointer(rebasing: bytes[property.content]))
            }
        guard let item = file.order.lazy.compactMap({ file.items[$0] }).first(where: { $0.type == "Exif" }) else {
            return
        }
        exif = try? file.withData(of: item) { content in
            // The offset of the TIFF header comes first (ISO/IEC 23008-12 annex A.2.1).
            guard content.count > 4 else { return nil }
            let start = 4 + Int(UInt32(bigEndian: content.loadUnaligned(as: UInt32.self)))
            guard start < content.count else { return nil }
            return SourceEXIF.read(UnsafeRawBufferPointer(rebasing: content[start...]))
        }
    }

    private static func contains(_ text: StaticString, _ bytes: UnsafeRawBufferPointer) -> Bool {
        text.withUTF8Buffer { text in
            guard let first = text.first, text.count <= bytes.count else { return false }
            return (0...(bytes.count - text.count)).contains { start in
                bytes[start] == first && bytes[start..<(start + text.count)].elementsEqual(text)
            }
        }
    }
}
