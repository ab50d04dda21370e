/// Reads the sizes of images from the sequence parameter sets of an HEVC stream (ITU-T H.265 section 7.3.2.2).
struct HEVCStream {
    private(set) var size = CodedSize()

    /// Reads the decoder configuration of `hvcC` (ISO/IEC 14496-15 section 8.3.3).
    mutating func readConfiguration(
        _ bytes: UnsafeRawBufferPointer,
        _ range: Range<Int>
    ) throws(ImageError) {
        var reader = ByteReader(bytes, range)
        try reader.skip(22)
        for _ in 0..<(try reader.number(1)) {
            try reader.skip(1)
            for _ in 0..<(try reader.number(2)) {
                let length = try reader.number(2)
                try take(bytes, try reader.part(length))
            }
        }
    }

    /// Reads the bytes of an item: NAL units, each preceded by its length in four bytes, as libheif reads them.
    ///
    /// - Throws: `.corruptImage` if a unit is truncated.
    mutating func read(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        var reader = ByteReader(bytes, 0..<bytes.count)
        while reader.remaining > 0 {
            let length = try reader.number(4)
            guard length <= reader.remaining else {
                throw HEIFFile.damage(
                    "its HEVC stream is cut short: \(reader.remaining) bytes are there of \(length)."
                )
            }
            try take(bytes, try reader.part(length))
        }
    }

    private mutating func take(
        _ bytes: UnsafeRawBufferPointer,
        _ range: Range<Int>
    ) throws(ImageError) {
        guard range.count > 2 else { return }
        let first = Int(bytes[range.lowerBound])
        let layer = (first & 1) << 5 | Int(bytes[range.lowerBound + 1]) >> 3
        // Decoders ignore other layers.
        guard layer == 0 else { return }
        let content = range.dropFirst(2)
        switch first >> 1 & 63 {
        case 0...9, 16...21:
            // Counts the first slice of each image.
            if bytes[content.lowerBound] & 0x80 != 0 { size.frames += 1 }
        case 33: try takeParameters(BitReader(bytes, content, skipsEmulationPrevention: true))
        default: break
        }
    }

    private mutating func takeParameters(_ reader: BitReader) throws(ImageError) {
        var bits = reader
        bits.skip(4)
        let layers = bits.bits(3)
        bits.skip(1)
        Self.skipProfile(&bits, layers)
        _ = bits.golomb()
        let chroma = bits.golomb()
        if chroma == 3 { bits.skip(1) }
        let coded = PixelSize(width: bits.golomb(), height: bits.golomb())
        var shown = coded
        if bits.flag() {
            let (left, right, top, bottom) = (bits.golomb(), bits.golomb(), bits.golomb(), bits.golomb())
            let (stepX, stepY) = (chroma == 1 || chroma == 2 ? 2 : 1, chroma == 1 ? 2 : 1)
            // No product overflows, because no code has more than 32 bits.
            shown = PixelSize(
                width: coded.width - (left + right) * stepX,
                height: coded.height - (top + bottom) * stepY
            )
        }
        let depth = 8 + max(bits.golomb(), bits.golomb())
        guard !bits.isBeyondEnd, chroma <= 3, depth <= 16, shown.width > 0, shown.height > 0 else {
            throw HEIFFile.damage("the sequence parameters of its HEVC stream are damaged.")
        }
        size.add(shown: shown, coded: coded, samples: [1, 1.5, 2, 3][chroma], depth: depth)
    }

    /// `profile_tier_level` (section 7.3.3).
    private static func skipProfile(_ bits: inout BitReader, _ layers: Int) {
        bits.skip(96)
        guard layers > 0 else { return }
        let present = (0..<layers).map { _ in (profile: bits.flag(), level: bits.flag()) }
        bits.skip(2 * (8 - layers))
        for layer in present { bits.skip((layer.profile ? 88 : 0) + (layer.level ? 8 : 0)) }
    }
}
