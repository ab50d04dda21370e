internal import CXXHash
internal import Crypto
internal import Foundation

/// Digests of bytes in hex.
enum Checksum {
    /// Hex digits of a SHA-256 checksum; XXH3 has half as many.
    static let sha256Digits = 64

    static func sha256(_ data: Data) -> String { hexDigits(SHA256.hash(data: data), count: SHA256.byteCount) }

    /// Hex digits in the byte order of XXH3's canonical form.
    static func xxh3(_ data: Data) -> String {
        var canonical = XXH128_canonical_t()
        XXH128_canonicalFromHash(&canonical, data.withUnsafeBytes { XXH3_128bits($0.baseAddress, $0.count) })
        return withUnsafeBytes(of: canonical) { hexDigits($0, count: $0.count) }
    }

    private static func hexDigits(_ bytes: some Sequence<UInt8>, count: Int) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(unsafeUninitializedCapacity: 2 * count) { buffer in
            var index = 0
            for byte in bytes {
                buffer[index] = digits[Int(byte >> 4)]
                buffer[index + 1] = digits[Int(byte & 15)]
                index += 2
            }
            return index
        }
    }
}
