public import Foundation

/// Pictures made by the tests themselves.
public enum TestImage {
    /// A PNG of one colour for each quarter: left top red, right top green, left bottom blue, right bottom white.
    public static func quarters(width: Int, height: Int, seed: UInt8 = 0) -> Data {
        png(width: width, height: height) { x, y in
            switch (x * 2 < width, y * 2 < height) {
            case (true, true): (255, seed, 0, 255)
            case (false, true): (0, 255, seed, 255)
            case (true, false): (seed, 0, 255, 255)
            case (false, false): (255, 255, 255, 255)
            }
        }
    }

    /// A PNG whose pixels a closure gives: red, green, blue, alpha. Not compressed.
    public static func png(
        width: Int,
        height: Int,
        _ pixel: (_ x: Int, _ y: Int) -> (UInt8, UInt8, UInt8, UInt8)
    ) -> Data {
        var raw = Data(capacity: height * (1 + width * 4))
        for y in 0..<height {
            raw.append(0)
            for x in 0..<width {
                let (red, green, blue, alpha) = pixel(x, y)
                raw.append(contentsOf: [red, green, blue, alpha])
            }
        }
        return png(header: header(width, height), data: zlib(raw))
    }

    /// A PNG that says it is so large and has no pixels.
    public static func bomb(width: Int, height: Int) -> Data {
        png(header: header(width, height), data: zlib(Data(repeating: 0, count: 64)))
    }

    private static func header(_ width: Int, _ height: Int) -> Data {
        bigEndian(UInt32(width)) + bigEndian(UInt32(height)) + Data([8, 6, 0, 0, 0])
    }

    private static func png(header: Data, data: Data) -> Data {
        Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) + chunk("IHDR", header) + chunk("IDAT", data)
            + chunk("IEND", Data())
    }

    private static func chunk(_ name: String, _ data: Data) -> Data {
        let body = Data(name.utf8) + data
        return bigEndian(UInt32(data.count)) + body + bigEndian(crc(body))
    }

    /// Stored blocks (RFC 1951 section 3.2.4) within zlib's frame (RFC 1950).
    private static func zlib(_ raw: Data) -> Data {
        var out = Data([0x78, 0x01])
        var offset = 0
        repeat {
            let length = min(65535, raw.count - offset)
            out.append(offset + length == raw.count ? 1 : 0)
            out.append(contentsOf: [UInt8(length & 255), UInt8(length >> 8)])
            out.append(contentsOf: [UInt8(~length & 255), UInt8(~length >> 8 & 255)])
            out.append(raw[raw.startIndex + offset..<raw.startIndex + offset + length])
            offset += length
        } while offset < raw.count
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in raw {
            low = (low + UInt32(byte)) % 65521
            high = (high + low) % 65521
        }
        return out + bigEndian(high << 16 | low)
    }

    private static let crcTable: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    private static func crc(_ data: Data) -> UInt32 {
        ~data.reduce(UInt32.max) { crcTable[Int(($0 ^ UInt32($1)) & 255)] ^ ($0 >> 8) }
    }

    private static func bigEndian(_ value: UInt32) -> Data { withUnsafeBytes(of: value.bigEndian) { Data($0) } }
}
