internal import CXXHash
internal import Crypto
package import Foundation

/// Digests of bytes in hex.
package enum Checksum {
    /// Hex digits of a SHA-256 checksum; XXH3 has half as many.
    static let sha256Digits = 64

    package static func sha256(_ data: Data) -> String { SHA256.hash(data: data).hexDigits }

    /// The checksum of an open file, which is read in blocks from its current position.
    ///
    /// - Returns: nil if it cannot be read to its end, with the reason in `errno`.
    package static func sha256(ofFile descriptor: Int32) -> String? {
        var hasher = SHA256()
        var block = [UInt8](repeating: 0, count: 256 * 1024)
        while true {
            let count = read(descriptor, &block, block.count)
            if count == 0 { return hasher.finalize().hexDigits }
            if count < 0 {
                if errno == EINTR { continue }
                return nil
            }
            hasher.update(data: block[..<count])
        }
    }

    /// Hex digits in the byte order of XXH3's canonical form.
    static func xxh3(_ data: Data) -> String {
        var canonical = XXH128_canonical_t()
        XXH128_canonicalFromHash(&canonical, data.withUnsafeBytes { XXH3_128bits($0.baseAddress, $0.count) })
        return withUnsafeBytes(of: canonical) { HexDigits.text($0) }
    }
}
