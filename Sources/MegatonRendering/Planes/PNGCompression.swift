internal import CDeflate
internal import Foundation

/// Compresses PNGs by libdeflate, in a third of the time that zlib takes, which libpng has for that alone: libpng
/// writes rows with filters and stores them, and their chunks are replaced.
enum PNGCompression {
    /// Bytes of an image up to which its rows are held in memory; libvips writes larger ones row by row.
    static let limit = 12 << 20

    /// Levels of libdeflate by the effort. Of 24 thumbnails, with the filter chosen for each row, level 1 takes a third
    /// of the time of level 4 and has as many bytes, but for one in a hundred; level 9 takes four times as long as
    /// level 6 for another one. zlib's level 6 without filters has a quarter more bytes than level 1.
    private static let levels: [Int32] = [0, 1, 1, 1, 1, 1, 1, 4, 6, 9]

    /// Arguments of libvips' encoder for such a PNG.
    static let arguments = ["compression=0", "filter=all"]

    /// - Parameters:
    ///   - png: A whole PNG with stored rows.
    ///   - effort: 0 to 9.
    /// - Returns: nil if the chunks cannot be read, or if there is no memory.
    static func compressed(_ png: Data, effort: Int) -> Data? {
        png.withUnsafeBytes { bytes in
            guard let parts = parts(bytes), let rows = inflated(parts.stored),
                let content = deflated(rows, levels[min(max(effort, 0), levels.count - 1)])
            else { return nil }
            var result = Data(capacity: parts.before.count + content.count + 12 + parts.after.count)
            result.append(contentsOf: bytes[parts.before])
            let name = Data("IDAT".utf8)
            result.append(bigEndian(UInt32(content.count)))
            let checksum = content.withUnsafeBytes { content in
                name.withUnsafeBytes { name in
                    libdeflate_crc32(
                        libdeflate_crc32(0, name.baseAddress, name.count),
                        content.baseAddress,
                        content.count
                    )
                }
            }
            result.append(name)
            result.append(contentsOf: content)
            result.append(bigEndian(checksum))
            result.append(contentsOf: bytes[parts.after])
            return result
        }
    }

    /// The chunks before and after the rows, and the content of those in between.
    private static func parts(
        _ bytes: UnsafeRawBufferPointer
    ) -> (before: Range<Int>, stored: [UInt8], after: Range<Int>)? {
        var (first, last) = (0, 0)
        var stored: [UInt8] = []
        stored.reserveCapacity(bytes.count)
        for chunk in ImageChunks.png(bytes) {
            guard chunk.whole.upperBound <= bytes.count else { return nil }
            guard chunk.name == "IDAT" else { continue }
            if first == 0 { first = chunk.whole.lowerBound }
            last = chunk.whole.upperBound
            stored += bytes[chunk.content]
        }
        return first > 0 ? (0..<first, stored, last..<bytes.count) : nil
    }

    private static func inflated(_ stored: [UInt8]) -> [UInt8]? {
        guard let tables = libdeflate_alloc_decompressor() else { return nil }
        defer { libdeflate_free_decompressor(tables) }
        var isWhole = false
        // Stored blocks are longer than their content.
        let rows = [UInt8](unsafeUninitializedCapacity: stored.count) { room, count in
            isWhole =
                libdeflate_zlib_decompress(tables, stored, stored.count, room.baseAddress, room.count, &count)
                == LIBDEFLATE_SUCCESS
            if !isWhole { count = 0 }
        }
        return isWhole ? rows : nil
    }

    private static func deflated(_ rows: [UInt8], _ level: Int32) -> [UInt8]? {
        guard let tables = libdeflate_alloc_compressor(level) else { return nil }
        defer { libdeflate_free_compressor(tables) }
        let most = libdeflate_zlib_compress_bound(tables, rows.count)
        let content = [UInt8](unsafeUninitializedCapacity: most) { room, count in
            count = libdeflate_zlib_compress(tables, rows, rows.count, room.baseAddress, room.count)
        }
        return content.isEmpty ? nil : content
    }

    private static func bigEndian(_ value: UInt32) -> Data { withUnsafeBytes(of: value.bigEndian) { Data($0) } }
}
