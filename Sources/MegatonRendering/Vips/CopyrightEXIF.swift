internal import Foundation

/// An EXIF block that contains only Artist and Copyright (CIPA DC-008 sections 4.5 and 4.6.4). Needed because some
/// savers of libvips do not build a block from the single fields.
struct CopyrightEXIF {
    /// Texts by tag.
    private var texts: [UInt16: String] = [:]

    /// The fields that the block can hold, by libvips' names.
    static let tags: [String: UInt16] = ["exif-ifd0-Artist": 0x013B, "exif-ifd0-Copyright": copyright]
    private static let copyright: UInt16 = 0x8298

    var isEmpty: Bool { texts.isEmpty }

    /// - Parameter value: In libvips' format: `text (the same for people, ASCII, 5 components, 5 bytes)`.
    mutating func add(_ field: String, _ value: String) {
        guard let tag = Self.tags[field], let text = Self.text(of: value), !text.isEmpty else { return }
        texts[tag] = text
    }

    /// Takes the texts of an EXIF block: libvips cuts those of its fields at 255 bytes, together with their
    /// description. Old programs write Latin-1, where the standard has ASCII and later programs UTF-8.
    mutating func add(block: Data) {
        let identifier = Data("Exif\0\0".utf8)
        let tiff = block.starts(with: identifier) ? block.dropFirst(identifier.count) : block
        tiff.withUnsafeBytes { bytes in
            guard let reader = TIFFReader(bytes), let start = reader.first, let entries = reader.entries(at: start)
            else {
                return
            }
            for tag in Self.tags.values {
                guard let entry = entries.first(where: { $0.tag == Int(tag) }),
                    let found = reader.textBytes(entry, limit: Self.longest), !found.isEmpty
                else { continue }
                texts[tag] = Self.decoded(found)
            }
        }
    }

    /// Maximum number of bytes of a text.
    private static let longest = 4096

    private static func decoded(_ bytes: [UInt8]) -> String {
        String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private static func text(of value: String) -> String? {
        let words = value.split(separator: " ")
        // The byte count includes the terminating zero of the text.
        guard words.last == "bytes)", let count = words.dropLast().last.flatMap({ Int($0) }), count > 1 else {
            return nil
        }
        let text = value.utf8.prefix(count - 1)
        if value.utf8.dropFirst(count - 1).starts(with: " (".utf8) { return String(text) }
        return value.range(of: " (").map { String(value[..<$0.lowerBound]) }
    }

    /// The fields in libvips' format.
    var fields: [String: String] {
        var fields: [String: String] = [:]
        for (name, tag) in Self.tags {
            guard let text = texts[tag] else { continue }
            let count = text.utf8.count + 1
            // Savers write a field that differs from their own description of the block: without its end, which begins
            // with the last parenthesis. They describe a copyright otherwise, so that its text must not be repeated
            // there.
            let repeated = tag == Self.copyright ? "" : "\(text), "
            fields[name] = "\(text) (\(repeated)ASCII, \(count) components, \(count) bytes)"
        }
        return fields
    }

    /// The EXIF block, little endian, with the identifier that precedes it in a JPEG.
    var block: Data {
        let start = 8
        let end = start + 2 + texts.count * 12 + 4
        var (entries, values) = (Data(), Data())
        for (tag, text) in texts.sorted(by: { $0.key < $1.key }) {
            let bytes = Data(text.utf8) + [0]
            entries += Self.little(tag) + Self.little(UInt16(2)) + Self.little(UInt32(bytes.count))
            if bytes.count <= 4 {
                entries += bytes + Data(count: 4 - bytes.count)
            } else {
                entries += Self.little(UInt32(end + values.count))
                // Values begin at even offsets (TIFF 6.0 section 2).
                values += bytes + Data(count: bytes.count % 2)
            }
        }
        return Data("Exif\0\0II*\0".utf8) + Self.little(UInt32(start)) + Self.little(UInt16(texts.count)) + entries
            + Self.little(UInt32(0)) + values
    }

    private static func little<Number: FixedWidthInteger>(_ number: Number) -> Data {
        var data = Data()
        data.append(littleEndian: number)
        return data
    }
}
