public import Foundation

/// Segments of JPEGs, by the specification (ITU-T T.81 annex B, CIPA DC-008 section 4.5, ICC.1:2010 annex B.4).
public enum TestJPEG {
    /// Inserts segments after the start of the image.
    public static func inserting(_ segments: Data, into jpeg: Data) -> Data {
        jpeg.prefix(2) + segments + jpeg.dropFirst(2)
    }

    public static func segment(_ marker: UInt8, _ body: Data) -> Data {
        Data([0xFF, marker, UInt8((body.count + 2) >> 8), UInt8((body.count + 2) & 255)]) + body
    }

    /// Removes the segments of one kind before the first scan.
    public static func removing(_ marker: UInt8, from jpeg: Data) -> Data {
        var (left, index) = (Data(jpeg.prefix(2)), 2)
        while jpeg[index + 1] != 0xDA {
            let end = index + 2 + Int(jpeg[index + 2]) << 8 + Int(jpeg[index + 3])
            if jpeg[index + 1] != marker { left += jpeg[index..<end] }
            index = end
        }
        return left + jpeg[index...]
    }

    /// - Parameter kind: type of the field; 3 is a 16-bit number.
    public static func exif(orientation: Int, isLittle: Bool = false, kind: UInt8 = 3) -> Data {
        let value = UInt8(orientation)
        let tiff: [UInt8] =
            isLittle
            ? [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, kind, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0]
            : [0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, kind, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0]
        return segment(0xE1, Data("Exif\0\0".utf8) + tiff)
    }

    public static func profile(_ bytes: Data, part: UInt8 = 1, of count: UInt8 = 1) -> Data {
        segment(0xE2, Data("ICC_PROFILE\0".utf8) + [part, count] + bytes)
    }

    /// A segment with Content Credentials: the begin of a C2PA manifest store (ISO/IEC 19566-5 annex D).
    public static var credentials: Data {
        let type: [UInt8] = [0x00, 0x11, 0x00, 0x10, 0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71, 3]
        let description = HEIFWriter.box("jumd", Data("c2pa".utf8) + type + Data("c2pa\0".utf8))
        return segment(0xEB, Data("JP".utf8) + [0, 1, 0, 0, 0, 1] + HEIFWriter.box("jumb", description))
    }

    /// A segment that announces a gain map (ISO 21496-1).
    public static var gainMap: Data { segment(0xE2, Data("urn:iso:std:iso:ts:21496:-1\0".utf8) + [0, 0]) }

    public static func adobe(transform: UInt8) -> Data {
        segment(0xEE, Data("Adobe".utf8) + [0, 100, 0, 0, 0, 0, transform])
    }
}
