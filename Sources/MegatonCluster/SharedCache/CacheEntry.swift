internal import CXXHash
internal import Crypto
internal import Foundation
internal import MegatonPipeline
internal import NIOCore

/// Conversion of an entry to chunks and back: packed metadata with length and checksum, and chunks of one size.
///
/// One HASH holds both, so that an entry is evicted, replaced and expired as a whole.
struct CacheEntry {
    /// 256 KiB less 64 bytes: with Redis' own header it fills jemalloc's size class exactly. 256 KiB would waste a
    /// quarter of it.
    static let chunkSize = 262_080

    static func chunkCount(_ length: Int) -> Int { (length + chunkSize - 1) / chunkSize }

    static func header(of entry: CachedData, isRendition: Bool, stored: Double) throws -> Data {
        var metadata = entry.metadata
        metadata.stored = stored
        // A checksum that a cache has just verified need not be computed again.
        let sum = entry.checksum ?? (isRendition ? sha256(entry.data) : xxh3(entry.data))
        let header = Header(length: entry.data.count, checksum: sum, metadata: metadata)
        return try header.plainJSON ?? JSONEncoder().encode(header)
    }

    /// The chunks, copied once into the buffers that go to the socket.
    static func chunks(of data: Data) -> [ByteBuffer] {
        stride(from: 0, to: data.count, by: chunkSize).map { offset in
            let start = data.startIndex + offset
            return ByteBuffer(bytes: data[start..<min(start + chunkSize, data.endIndex)])
        }
    }

    /// Joins the chunks of an entry; nil if one is missing or the bytes differ from those that were stored: a miss.
    static func assemble(_ header: Header, _ chunks: [ByteBuffer]) -> CachedData? {
        var data = Data(capacity: header.length)
        for chunk in chunks { data.append(contentsOf: chunk.readableBytesView) }
        return entry(header, data)
    }

    /// Nil if the bytes differ from those that were stored: a miss.
    static func entry(_ header: Header, _ data: Data) -> CachedData? {
        guard data.count == header.length, let sum = header.checksum,
            sum == (header.sha256 == nil ? xxh3(data) : sha256(data))
        else { return nil }
        return CachedData(data: data, metadata: header.metadata, checksum: sum)
    }

    /// Hex digits of a SHA-256 checksum; XXH3 has half as many.
    static let digitsOfSHA256 = 64

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
