internal import Crypto
internal import Foundation
internal import MegatonPipeline
internal import NIOCore

/// An entry's way into chunks and back: packed metadata with length and checksum, and pieces of one size.
///
/// One HASH holds both, so that an entry is evicted, replaced and expired as a whole.
struct CacheEntry {
    /// 256 KiB less 64 bytes: with Redis' own header it fills jemalloc's size class exactly, while 256 KiB would waste a
    /// quarter of it.
    static let chunkSize = 262_080

    /// What field `m` holds.
    struct Header: Codable {
        /// Bytes of the data.
        let length: Int
        /// SHA-256 of the data, hex.
        let sha256: String
        let metadata: CachedData.Metadata

        /// The same JSON as the encoder's, but for the order of the fields; nil where a text in it is not plain.
        var plainJSON: Data? {
            var json = PlainJSON(capacity: 512)
            json.open("{")
            json.field("length", length)
            json.name("metadata")
            json.open("{")
            json.field("age", metadata.age)
            json.field("etag", metadata.etag)
            json.field("headers", metadata.headers)
            json.field("height", metadata.height)
            json.field("lastModified", metadata.lastModified)
            json.field("lifetime", metadata.lifetime)
            json.field("staleIfError", metadata.staleIfError)
            json.field("staleWhileRevalidate", metadata.staleWhileRevalidate)
            json.field("status", metadata.status)
            json.field("stored", metadata.stored)
            json.field("type", metadata.type)
            json.field("vary", metadata.vary)
            json.field("width", metadata.width)
            json.close("}")
            json.field("sha256", sha256)
            json.close("}")
            return json.isPlain ? json.data : nil
        }
    }

    static func chunkCount(_ length: Int) -> Int { (length + chunkSize - 1) / chunkSize }

    static func header(of entry: CachedData, stored: Double) throws -> Data {
        var metadata = entry.metadata
        metadata.stored = stored
        // Where a cache has just verified it, it need not be counted again.
        let sum = entry.checksum ?? sha256(entry.data)
        let header = Header(length: entry.data.count, sha256: sum, metadata: metadata)
        return try header.plainJSON ?? JSONEncoder().encode(header)
    }

    /// The pieces, copied once into the buffers that go to the socket.
    static func chunks(of data: Data) -> [ByteBuffer] {
        stride(from: 0, to: data.count, by: chunkSize).map { offset in
            let start = data.startIndex + offset
            return ByteBuffer(bytes: data[start..<min(start + chunkSize, data.endIndex)])
        }
    }

    /// Nil where a piece is missing or the bytes are not those that were stored: a miss.
    static func assemble(_ header: Header, _ chunks: [ByteBuffer]) -> CachedData? {
        var data = Data(capacity: header.length)
        for chunk in chunks { data.append(contentsOf: chunk.readableBytesView) }
        guard data.count == header.length, sha256(data) == header.sha256 else { return nil }
        return CachedData(data: data, metadata: header.metadata, checksum: header.sha256)
    }

    static func sha256(_ data: Data) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let digest = SHA256.hash(data: data)
        return String(unsafeUninitializedCapacity: 64) { buffer in
            var index = 0
            for byte in digest {
                buffer[index] = digits[Int(byte >> 4)]
                buffer[index + 1] = digits[Int(byte & 15)]
                index += 2
            }
            return index
        }
    }
}
