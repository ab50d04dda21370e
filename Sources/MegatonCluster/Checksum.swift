internal import CXXHash
internal import Crypto
package import Foundation

/// Digests of bytes in hex.
package enum Checksum {
    /// Hex digits of a SHA-256 checksum; XXH3 has half as many.
    static let sha256Digits = 64

    package static func sha256(_ data: Data) -> String { SHA256.hash(data: data).hexDigits }

    /// Hex digits in the byte order of XXH3's canonical form.
    static func xxh3(_ data: Data) -> String {
        var canonical = XXH128_canonical_t()
        XXH128_canonicalFromHash(&canonical, data.withUnsafeBytes { XXH3_128bits($0.baseAddress, $0.count) })
        return withUnsafeBytes(of: canonical) { HexDigits.text($0) }
    }
}
