public import Foundation

/// Inserts EXIF into a JPEG: CIPA DC-008 section 4.5, little endian.
public enum TestEXIF {
    /// - Parameters:
    ///   - texts: ASCII fields of IFD 0 by their tags.
    ///   - date: DateTimeOriginal, such as `2026:05:01 12:30:59`; nil for none.
    ///   - thumbnail: a JPEG for IFD 1.
    public static func jpeg(
        _ jpeg: Data,
        orientation: UInt16 = 1,
        texts: [UInt16: String] = [:],
        date: String? = nil,
        thumbnail: Data? = nil
    ) -> Data {
        var fields = texts.map { (tag: $0.key, type: UInt16(2), value: Data($0.value.utf8) + [0]) }
        fields.append((tag: 0x0112, type: 3, value: little(orientation) + [0, 0]))
        // Its value is the place of the directory with the date, which follows this one.
        if date != nil { fields.append((tag: 0x8769, type: 4, value: Data(count: 4))) }
        fields.sort { $0.tag < $1.tag }
        let first = 8
        let end = first + 2 + fields.count * 12 + 4
        var entries = Data()
        var values = date.map { details($0, at: end) } ?? Data()
        for field in fields {
            let count = field.type == 2 ? field.value.count : 1
            entries += little(field.tag) + little(field.type) + little(UInt32(count))
            if field.type == 4 {
                entries += little(UInt32(end))
            } else if field.value.count <= 4 {
                entries += field.value + Data(count: 4 - field.value.count)
            } else {
                entries += little(UInt32(end + values.count))
                values += field.value
            }
        }
        var second = Data()
        if let thumbnail {
            let start = UInt32(end + values.count)
            let entry = { (tag: UInt16, value: UInt32) in
                little(tag) + little(UInt16(4)) + little(UInt32(1)) + little(value)
            }
            second += little(UInt16(2)) + entry(0x0201, start + 2 + 24 + 4) + entry(0x0202, UInt32(thumbnail.count))
            second += little(UInt32(0)) + thumbnail
        }
        let next = thumbnail == nil ? 0 : UInt32(end + values.count)
        let tiff =
            Data("II*\0".utf8) + little(UInt32(first)) + little(UInt16(fields.count)) + entries + little(next) + values
        let body = Data("Exif\0\0".utf8) + tiff + second
        let length = UInt16(body.count + 2)
        return jpeg.prefix(2) + Data([0xFF, 0xE1, UInt8(length >> 8), UInt8(length & 255)]) + body + jpeg.dropFirst(2)
    }

    /// The Exif IFD with a date, and the text of the date behind it.
    private static func details(_ date: String, at start: Int) -> Data {
        let text = Data(date.utf8) + [0]
        var directory = little(UInt16(1)) + little(UInt16(0x9003)) + little(UInt16(2)) + little(UInt32(text.count))
        directory += little(UInt32(start + 2 + 12 + 4)) + little(UInt32(0))
        return directory + text
    }

    private static func little<Number: FixedWidthInteger>(_ number: Number) -> Data {
        withUnsafeBytes(of: number.littleEndian) { Data($0) }
    }
}
