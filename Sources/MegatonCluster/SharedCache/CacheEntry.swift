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
        let sum = entry.checksum ?? checksum(of: entry.data, isRendition: isRendition)
        let header = Header(length: entry.data.count, checksum: sum, metadata: metadata)
        return try header.plainJSON ?? JSONEncoder().encode(header)
    }

    static func checksum(of data: Data, isRendition: Bool) -> String {
        isRendition ? Checksum.sha256(data) : Checksum.xxh3(data)
    }

    /// The chunks, copied once into the buffers that go to the socket.
    static func chunks(of data: Data) -> [ByteBuffer] {
        stride(from: 0, to: data.count, by: chunkSize).map { offset in
            let start = data.startIndex + offset
            return ByteBuffer(bytes: data[start..<min(start + chunkSize, data.endIndex)])
        }
    }

    /// Joins the chunks of an entry; nil if one is missing or the bytes differ from those that were stored: a miss.
    static func assemble(_ header: Header, from chunks: [ByteBuffer]) -> CachedData? {
        var data = Data(capacity: header.length)
        for chunk in chunks { data.append(contentsOf: chunk.readableBytesView) }
        return entry(header, data: data)
    }

    /// Nil if the bytes differ from those that were stored: a miss.
    static func entry(_ header: Header, data: Data) -> CachedData? {
        guard data.count == header.length, let sum = header.checksum,
            sum == (header.sha256 == nil ? Checksum.xxh3(data) : Checksum.sha256(data))
        else { return nil }
        return CachedData(data: data, metadata: header.metadata, checksum: sum)
    }
}
