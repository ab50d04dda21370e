/// The chunks of a PNG, or of a RIFF file such as a WebP, one after the other, as far as their beginnings are in the
/// file. Each step advances by at least the eight bytes of a name and a length, so that the walk ends; callers limit
/// the number of chunks that they look at.
struct ImageChunks: Sequence, IteratorProtocol {
    struct Chunk {
        /// Four characters.
        let name: String
        /// The whole chunk. It ends beyond the file if that is cut off.
        let whole: Range<Int>
        /// Its content, without the checksum of a PNG and the padding of a RIFF file.
        let content: Range<Int>
    }

    private let bytes: UnsafeRawBufferPointer
    private let isPNG: Bool
    private var index: Int

    /// The chunks behind the signature (PNG, third edition, section 5.3: length, name, content, checksum).
    static func png(_ bytes: UnsafeRawBufferPointer) -> Self { Self(bytes: bytes, isPNG: true, index: 8) }

    /// The chunks within the outermost one (RFC 9649, section 2.3: name, length, content, padded to an even number).
    static func riff(_ bytes: UnsafeRawBufferPointer) -> Self { Self(bytes: bytes, isPNG: false, index: 12) }

    mutating func next() -> Chunk? {
        guard index + (isPNG ? 12 : 8) <= bytes.count else { return nil }
        let nameStart = isPNG ? index + 4 : index
        let number = bytes.loadUnaligned(fromByteOffset: isPNG ? index : index + 4, as: UInt32.self)
        let length = Int(isPNG ? UInt32(bigEndian: number) : UInt32(littleEndian: number))
        let start = index + 8
        let chunk = Chunk(
            name: String(decoding: bytes[nameStart..<(nameStart + 4)], as: UTF8.self),
            whole: index..<(start + length + (isPNG ? 4 : length % 2)),
            content: start..<(start + length)
        )
        index = chunk.whole.upperBound
        return chunk
    }
}
