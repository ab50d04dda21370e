/// The sequence header of an AV1 stream (AV1 specification, section 5.5), as far as frame sizes depend on it.
struct AV1SequenceHeader {
    /// An operating point: a bit mask of its layers.
    private struct OperatingPoint {
        let layers: Int
        let hasDecoderModel: Bool
    }

    private(set) var size = PixelSize(width: 0, height: 0)
    private(set) var widthBits = 0
    private(set) var heightBits = 0
    private(set) var depth = 8
    /// Samples for each pixel.
    private(set) var samples = 1.0
    /// Whether it is a still image with the reduced header: its only frame has the size of the sequence.
    private var isReduced = false
    private var hasDecoderModel = false
    private var hasEqualIntervals = false
    private var delayBits = 0
    private var removalTimeBits = 0
    private var presentationTimeBits = 0
    private var points: [OperatingPoint] = []
    private var hasFrameIDs = false
    private var deltaFrameIDBits = 0
    private var frameIDBits = 0
    private var orderHintBits = 0
    /// 0 or 1 for all frames; 2 if each frame declares it.
    private var screenContent = 2
    private var integerMotion = 2

    /// - Returns: nil if the bytes end before the header does.
    init?(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) {
        var bits = BitReader(bytes, range)
        let profile = bits.bits(3)
        // Skips the still-image flag.
        bits.skip(1)
        isReduced = bits.flag()
        if isReduced { bits.skip(5) } else { readPoints(&bits) }
        widthBits = bits.bits(4) + 1
        heightBits = bits.bits(4) + 1
        size = PixelSize(width: bits.bits(widthBits) + 1, height: bits.bits(heightBits) + 1)
        if !isReduced && bits.flag() {
            hasFrameIDs = true
            deltaFrameIDBits = bits.bits(4) + 2
            frameIDBits = bits.bits(3) + deltaFrameIDBits + 1
        }
        // Skips superblocks of 128 pixels, and tools for intra frames.
        bits.skip(3)
        if !isReduced { readTools(&bits) }
        // Skips super-resolution, the directional filter, and restoration.
        bits.skip(3)
        readColors(&bits, profile)
        if bits.isBeyondEnd { return nil }
    }

    private mutating func readPoints(_ bits: inout BitReader) {
        if bits.flag() {
            bits.skip(64)
            hasEqualIntervals = bits.flag()
            if hasEqualIntervals { _ = bits.golomb() }
            hasDecoderModel = bits.flag()
            if hasDecoderModel {
                delayBits = bits.bits(5) + 1
                bits.skip(32)
                removalTimeBits = bits.bits(5) + 1
                presentationTimeBits = bits.bits(5) + 1
            }
        }
        let hasInitialDelay = bits.flag()
        for _ in 0...bits.bits(5) {
            let layers = bits.bits(12)
            // Levels above 3.3 have a tier bit.
            if bits.bits(5) > 7 { bits.skip(1) }
            let hasModel = hasDecoderModel && bits.flag()
            if hasModel { bits.skip(2 * delayBits + 1) }
            points.append(OperatingPoint(layers: layers, hasDecoderModel: hasModel))
            if hasInitialDelay && bits.flag() { bits.skip(4) }
        }
    }

    private mutating func readTools(_ bits: inout BitReader) {
        bits.skip(4)
        let hasOrderHints = bits.flag()
        if hasOrderHints { bits.skip(2) }
        screenContent = bits.flag() ? 2 : bits.bits(1)
        if screenContent > 0 { integerMotion = bits.flag() ? 2 : bits.bits(1) }
        if hasOrderHints { orderHintBits = bits.bits(3) + 1 }
    }

    private mutating func readColors(_ bits: inout BitReader, _ profile: Int) {
        let isHigh = bits.flag()
        depth = profile == 2 && isHigh ? (bits.flag() ? 12 : 10) : isHigh ? 10 : 8
        let isGray = profile != 1 && bits.flag()
        let description = bits.flag() ? [bits.bits(8), bits.bits(8), bits.bits(8)] : [2, 2, 2]
        if isGray { return }
        // sRGB, stored without conversion.
        if description == [1, 13, 0] {
            samples = 3
            return
        }
        bits.skip(1)
        switch profile {
        case 0: samples = 1.5
        case 1: samples = 3
        default:
            let halvesWidth = depth == 12 ? bits.flag() : true
            let halvesHeight = depth == 12 && halvesWidth ? bits.flag() : false
            samples = halvesWidth ? (halvesHeight ? 1.5 : 2) : 3
        }
    }

    /// The size of a frame (sections 5.9.2 and 5.9.5).
    ///
    /// - Parameter layers: The temporal and the spatial layer of the frame.
    /// - Returns: nil if the frame only shows an earlier one, or has the size of an earlier one.
    func frameSize(
        _ bytes: UnsafeRawBufferPointer,
        _ range: Range<Int>,
        layers: (temporal: Int, spatial: Int)
    ) -> PixelSize? {
        if isReduced { return size }
        var bits = BitReader(bytes, range)
        if bits.flag() { return nil }
        let type = bits.bits(2)
        let (isKey, isIntra, isSwitch) = (type == 0, type == 0 || type == 2, type == 3)
        let isShown = bits.flag()
        if isShown {
            if hasDecoderModel && !hasEqualIntervals { bits.skip(presentationTimeBits) }
        } else {
            bits.skip(1)
        }
        let isResilient = isSwitch || (isKey && isShown) || bits.flag()
        bits.skip(1)
        let hasScreenContent = screenContent == 2 ? bits.flag() : screenContent == 1
        if hasScreenContent && integerMotion == 2 { bits.skip(1) }
        if hasFrameIDs { bits.skip(frameIDBits) }
        let hasOwnSize = isSwitch || bits.flag()
        guard hasOwnSize else { return size }
        bits.skip(orderHintBits)
        if !isIntra && !isResilient { bits.skip(3) }
        skipRemovalTimes(&bits, layers)
        let refreshed = isSwitch || (isKey && isShown) ? 0xFF : bits.bits(8)
        if (!isIntra || refreshed != 0xFF) && isResilient { bits.skip(8 * orderHintBits) }
        if !isIntra {
            if skipReferences(&bits, mayHaveTheirSize: !isResilient) { return nil }
        }
        return PixelSize(width: bits.bits(widthBits) + 1, height: bits.bits(heightBits) + 1)
    }

    private func skipRemovalTimes(_ bits: inout BitReader, _ layers: (temporal: Int, spatial: Int)) {
        guard hasDecoderModel, bits.flag() else { return }
        for point in points where point.hasDecoderModel {
            let isInPoint = point.layers >> layers.temporal & 1 == 1 && point.layers >> (layers.spatial + 8) & 1 == 1
            if point.layers == 0 || isInPoint { bits.skip(removalTimeBits) }
        }
    }

    /// - Returns: Whether the frame has the size of a reference frame.
    private func skipReferences(_ bits: inout BitReader, mayHaveTheirSize: Bool) -> Bool {
        let isShort = orderHintBits > 0 && bits.flag()
        if isShort { bits.skip(6) }
        for _ in 0..<7 {
            if !isShort { bits.skip(3) }
            if hasFrameIDs { bits.skip(deltaFrameIDBits) }
        }
        guard mayHaveTheirSize else { return false }
        for _ in 0..<7 where bits.flag() { return true }
        return false
    }
}
