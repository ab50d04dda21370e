import Foundation

/// Inserts EXIF into a JPEG: CIPA DC-008 section 4.5, little endian.
enum TestEXIF {
    /// - Parameters:
    ///   - texts: ASCII fields of IFD 0 by their tags.
    ///   - thumbnail: a JPEG for IFD 1.
    static func jpeg(
        _ jpeg: Data,
        orientation: UInt16 = 1,
        texts: [UInt16: String] = [:],
        thumbnail: Data? = nil
    ) -> Data {
        var fields = texts.map { (tag: $0.key, type: UInt16(2), value: Data($0.value.utf8) + [0]) }
        fields.append((tag: 0x0112, type: 3, value: little(orientation) + [0, 0]))
        fields.sort { $0.tag < $1.tag }
        let first = 8
        let end = first + 2 + fields.count * 12 + 4
        var (entries, values) = (Data(), Data())
        for field in fields {
            let count = field.type == 3 ? 1 : field.value.count
            entries += little(field.tag) + little(field.type) + little(UInt32(count))
            if field.value.count <= 4 {
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

    private static func little<Number: FixedWidthInteger>(_ number: Number) -> Data {
        withUnsafeBytes(of: number.littleEndian) { Data($0) }
    }
}
