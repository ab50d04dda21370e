import Foundation

/// Segments of JPEGs, by the specification (ITU-T T.81 annex B, CIPA DC-008 section 4.5, ICC.1:2010 annex B.4).
enum TestJPEG {
    /// Inserts segments after the start of the image.
    static func inserting(_ segments: Data, into jpeg: Data) -> Data { jpeg.prefix(2) + segments + jpeg.dropFirst(2) }

    static func segment(_ marker: UInt8, _ body: Data) -> Data {
        Data([0xFF, marker, UInt8((body.count + 2) >> 8), UInt8((body.count + 2) & 255)]) + body
    }

    /// Removes the segments of one kind before the first scan.
    static func removing(_ marker: UInt8, from jpeg: Data) -> Data {
        var (left, index) = (Data(jpeg.prefix(2)), 2)
        while jpeg[index + 1] != 0xDA {
            let end = index + 2 + Int(jpeg[index + 2]) << 8 + Int(jpeg[index + 3])
            if jpeg[index + 1] != marker { left += jpeg[index..<end] }
            index = end
        }
        return left + jpeg[index...]
    }

    /// - Parameter kind: type of the field; 3 is a 16-bit number.
    static func exif(orientation: Int, isLittle: Bool = false, kind: UInt8 = 3) -> Data {
        let value = UInt8(orientation)
        let tiff: [UInt8] =
            isLittle
            ? [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, kind, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0]
            : [0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, kind, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0]
        return segment(0xE1, Data("Exif\0\0".utf8) + tiff)
    }

    static func profile(_ bytes: Data, part: UInt8 = 1, of count: UInt8 = 1) -> Data {
        segment(0xE2, Data("ICC_PROFILE\0".utf8) + [part, count] + bytes)
    }

    static func adobe(transform: UInt8) -> Data {
        segment(0xEE, Data("Adobe".utf8) + [0, 100, 0, 0, 0, 0, transform])
    }
}
