package import Foundation

/// Bytes as hex digits.
package enum HexDigits {
    /// Two lowercase digits for each byte.
    package static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { buffer in
            for (index, byte) in bytes.enumerated() {
                buffer[index * 2] = digit(byte >> 4)
                buffer[index * 2 + 1] = digit(byte & 15)
            }
            return bytes.count * 2
        }
    }

    /// The byte as it is written in a URL, e.g. `%2F` (RFC 3986 section 2.1).
    package static func percentEncoded(_ byte: UInt8) -> String { "%" + [byte].hexDigits.uppercased() }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}

extension ContiguousBytes {
    /// The bytes in lowercase hex.
    package var hexDigits: String { withUnsafeBytes { HexDigits.text($0) } }
}
