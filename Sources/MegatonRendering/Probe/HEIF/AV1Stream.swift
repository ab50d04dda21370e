/// Reads the sizes of frames from an AV1 stream (AV1 specification, section 5.3).
struct AV1Stream {
    private(set) var size = CodedSize()
    private var header: AV1SequenceHeader?

    /// Reads open bitstream units: those of `av1C`, or of an item.
    ///
    /// - Throws: `.corruptImage` if a unit is truncated, or if a frame precedes every sequence header.
    mutating func read(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) throws(ImageError) {
        var reader = ByteReader(bytes, range)
        while reader.remaining > 0 {
            let flags = try reader.number(1)
            var layers = (temporal: 0, spatial: 0)
            if flags & 4 != 0 {
                let byte = try reader.number(1)
                layers = (byte >> 5, byte >> 3 & 3)
            }
            let length = flags & 2 != 0 ? try Self.length(&reader) : reader.remaining
            guard length <= reader.remaining else {
                throw HEIFFile.damage(
                    "its AV1 stream is cut short: \(reader.remaining) bytes are there of \(length)."
                )
            }
            try take(flags >> 3 & 15, bytes, try reader.part(length), layers)
        }
    }

    private mutating func take(
        _ type: Int,
        _ bytes: UnsafeRawBufferPointer,
        _ range: Range<Int>,
        _ layers: (temporal: Int, spatial: Int)
    ) throws(ImageError) {
        switch type {
        case 1:
            guard let found = AV1SequenceHeader(bytes, range) else {
                throw HEIFFile.damage("the sequence header of its AV1 stream is cut short.")
            }
            header = found
            size.add(shown: found.size, coded: found.size, samples: found.samples, depth: found.depth)
        // A frame header (3), a frame with its header (6), or a redundant header (7), which decoders decode if it
        // repeats nothing.
        case 3, 6, 7:
            guard let header else {
                throw HEIFFile.damage("its AV1 stream has a frame before any sequence header.")
            }
            size.frames += 1
            if let frame = header.frameSize(bytes, range, layers: layers) {
                size.add(shown: frame, coded: frame, samples: header.samples, depth: header.depth)
            }
        default: break
        }
    }

    /// Reads a LEB128 number: 7 bits for each byte, lowest first (section 4.10.5).
    private static func length(_ reader: inout ByteReader) throws(ImageError) -> Int {
        var value = 0
        for index in 0..<8 {
            let byte = try reader.number(1)
            value |= (byte & 0x7F) << (7 * index)
            if byte & 0x80 == 0 { return value }
        }
        throw HEIFFile.damage("its AV1 stream has a length beyond counting.")
    }
}
