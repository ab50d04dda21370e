internal import Crypto

/// The name of a key's file: the SHA-256 of the key.
struct DataCacheFileName: Hashable, Sendable {
    /// The digest in words of eight bytes. The index holds one per file, and hex digits would take several times the
    /// memory.
    private let words: SIMD4<UInt64>

    init(_ key: String) {
        var hash = SHA256()
        var key = key
        key.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        words = hash.finalize().withUnsafeBytes { bytes in
            SIMD4((0..<4).map { UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: $0 * 8, as: UInt64.self)) })
        }
    }

    /// - Parameter hex: 64 lowercase digits; anything else is no file name of this cache.
    init?(hex: Substring) {
        guard hex.utf8.count == 64 else { return nil }
        var words = SIMD4<UInt64>()
        for (index, byte) in hex.utf8.enumerated() {
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            words[index / 16] = words[index / 16] << 4 | UInt64(digit)
        }
        self.words = words
    }

    /// The index of the folder, one of 256, that holds the file.
    var folder: UInt8 { UInt8(words[0] >> 56) }

    /// The name as 64 hex digits.
    var hex: String {
        let bytes = SIMD4(words[0].bigEndian, words[1].bigEndian, words[2].bigEndian, words[3].bigEndian)
        return withUnsafeBytes(of: bytes) { HexDigits.text($0) }
    }

    /// Mixes the digest into a checksum, so that a file under another file's name is detected.
    func update(_ hash: inout SHA256) {
        for index in 0..<4 { withUnsafeBytes(of: words[index].bigEndian) { hash.update(bufferPointer: $0) } }
    }
}
