internal import CDeflate
internal import Foundation

/// The chunks of a PNG that its pixels need (PNG, third edition, sections 5 and 11), with their checksums compared. All
/// that is unusual is left to libvips: the initializer returns nil.
struct PNGChunks {
    let size: PixelSize
    /// Bits of a channel, or of a palette's index: 1, 2, 4 or 8.
    private let depth: Int
    /// Channels as stored: one index of a palette is one.
    let channels: Int
    /// Whether samples are stored as bytes that need no palette and no transparent color.
    private(set) var isPlain: Bool
    /// The signature, IHDR, and, if there are any, PLTE and tRNS, as in the file.
    private(set) var beginning: [UInt8]
    /// The compressed rows, which may be divided in any way.
    private var parts: [Range<Int>] = []
    /// Colors that need no conversion: those of no profile, or of one that is sRGB.
    private var hasPlainColors = true

    /// A profile may not be larger. Those of cameras and monitors have a few kilobytes, those of printers, which have
    /// tables, up to two megabytes.
    private static let profileLimit = 64 << 10
    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    private static let headerLength = 13
    /// The color type of an image with a palette.
    private static let palette: UInt8 = 3

    /// - Returns: nil if the file is damaged, or has interlaced rows, channels of 16 bits, or a profile other than
    ///   sRGB.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let header = 16
        guard bytes.count > header + Self.headerLength, bytes.starts(with: Self.signature) else { return nil }
        func number(_ start: Int) -> Int { Self.number(bytes, start) }
        size = PixelSize(width: number(header), height: number(header + 4))
        depth = Int(bytes[header + 8])
        switch bytes[header + 9] {
        case 0, Self.palette: channels = 1
        case 2: channels = 3
        case 4: channels = 2
        case 6: channels = 4
        default: return nil
        }
        let hasUsualMethods = bytes[header + 10] == 0 && bytes[header + 11] == 0 && bytes[header + 12] == 0
        guard hasUsualMethods, [1, 2, 4, 8].contains(depth), size.width > 0, size.height > 0 else { return nil }
        isPlain = depth == 8 && bytes[header + 9] != Self.palette
        beginning = Self.signature
        guard readChunks(bytes), hasPlainColors, !parts.isEmpty else { return nil }
    }

    /// Bytes of the inflated rows, each with the byte that names its filter.
    var rowsLength: Int { ((size.width * channels * depth + 7) / 8 + 1) * size.height }

    /// Inflates the rows. libdeflate cannot be interrupted; the length of the rows bounds its time.
    ///
    /// - Parameter room: Memory for ``rowsLength`` bytes.
    /// - Returns: Whether the data is whole, which its checksum says too.
    func inflate(_ bytes: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Bool {
        // Compressed rows are hardly longer than rows, unless they have empty blocks.
        let length = parts.reduce(0) { $0 + $1.count }
        guard length <= rowsLength + rowsLength / 8 + (64 << 10) else { return false }
        // One part is inflated in its place.
        if parts.count == 1 {
            return Self.inflate(UnsafeRawBufferPointer(rebasing: bytes[parts[0]]), into: room)
        }
        var joined: [UInt8] = []
        joined.reserveCapacity(length)
        for part in parts { joined += bytes[part] }
        return joined.withUnsafeBytes { Self.inflate($0, into: room) }
    }

    // MARK: - Chunks

    private mutating func readChunks(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var (count, hasProfile, endOfRows) = (0, false, 0)
        for chunk in ImageChunks.png(bytes) {
            count += 1
            guard chunk.whole.upperBound <= bytes.count, count <= HeaderBounds.parts else { return false }
            switch chunk.name {
            case "IHDR":
                guard count == 1, chunk.content.count == Self.headerLength else { return false }
                guard keep(bytes, chunk.whole) else { return false }
            case "PLTE", "tRNS":
                guard parts.isEmpty, keep(bytes, chunk.whole) else { return false }
                if chunk.name == "tRNS" { isPlain = false }
            case "iCCP":
                // libpng takes the first of several; each costs an inflation.
                guard parts.isEmpty, !hasProfile else { return false }
                hasProfile = true
                hasPlainColors = Self.isSRGB(UnsafeRawBufferPointer(rebasing: bytes[chunk.content]))
            case "IDAT":
                let isNext = endOfRows == 0 || endOfRows == chunk.whole.lowerBound
                guard isNext, Self.isWhole(bytes, chunk.whole) else { return false }
                endOfRows = chunk.whole.upperBound
                if !chunk.content.isEmpty { parts.append(chunk.content) }
            case "IEND": return true
            // A chunk whose name begins in upper case is critical (section 5.4).
            default: if bytes[chunk.whole.lowerBound + 4] & 0x20 == 0 { return false }
            }
        }
        return false
    }

    private mutating func keep(_ bytes: UnsafeRawBufferPointer, _ chunk: Range<Int>) -> Bool {
        guard Self.isWhole(bytes, chunk) else { return false }
        beginning += bytes[chunk]
        return true
    }

    /// Whether the checksum is that of the chunk's name and content.
    private static func isWhole(_ bytes: UnsafeRawBufferPointer, _ chunk: Range<Int>) -> Bool {
        let covered = UnsafeRawBufferPointer(rebasing: bytes[(chunk.lowerBound + 4)..<(chunk.upperBound - 4)])
        return libdeflate_crc32(0, covered.baseAddress, covered.count) == UInt32(number(bytes, chunk.upperBound - 4))
    }

    /// Whether the content of iCCP, a name and a compressed profile, is sRGB.
    private static func isSRGB(_ content: UnsafeRawBufferPointer) -> Bool {
        guard let end = content.prefix(80).firstIndex(of: 0), content.count > end + 2, content[end + 1] == 0 else {
            return false
        }
        let compressed = UnsafeRawBufferPointer(rebasing: content[(end + 2)...])
        let profile = [UInt8](unsafeUninitializedCapacity: profileLimit) { room, count in
            count = inflated(compressed, into: UnsafeMutableRawBufferPointer(room)) ?? 0
        }
        return ICCProfile(profile)?.isSRGB ?? false
    }

    // MARK: - Bytes

    private static func inflate(_ bytes: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Bool {
        inflated(bytes, into: room) == room.count
    }

    /// - Returns: The number of bytes; nil if the data is damaged, or if there is not enough room or memory.
    private static func inflated(_ bytes: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let from = bytes.baseAddress, let to = room.baseAddress, let tables = libdeflate_alloc_decompressor()
        else { return nil }
        defer { libdeflate_free_decompressor(tables) }
        var count = 0
        let result = libdeflate_zlib_decompress(tables, from, bytes.count, to, room.count, &count)
        return result == LIBDEFLATE_SUCCESS ? count : nil
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, _ start: Int) -> Int {
        Int(UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: start, as: UInt32.self)))
    }
}
