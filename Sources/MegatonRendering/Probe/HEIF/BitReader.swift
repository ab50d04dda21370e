/// Reads bits, the highest of a byte first. After the end it returns zeros and sets `isBeyondEnd`.
struct BitReader {
    private let bytes: UnsafeRawBufferPointer
    private let end: Int
    private var index: Int
    private var bit = 0
    /// Whether to skip emulation prevention bytes (ITU-T H.265 section 7.3.1.1).
    private let skipsEmulationPrevention: Bool
    private var zeros = 0
    /// Whether a read went beyond the last byte.
    private(set) var isBeyondEnd = false

    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>, skipsEmulationPrevention: Bool = false) {
        self.bytes = bytes
        index = range.lowerBound
        end = range.upperBound
        self.skipsEmulationPrevention = skipsEmulationPrevention
    }

    mutating func flag() -> Bool { bits(1) == 1 }

    /// - Parameter count: 0 to 32.
    mutating func bits(_ count: Int) -> Int {
        var value = 0
        for _ in 0..<count { value = value << 1 | next() }
        return value
    }

    mutating func skip(_ count: Int) {
        for _ in 0..<count where !isBeyondEnd { _ = next() }
    }

    /// An unsigned Exp-Golomb code: `ue(v)` of H.265, and `uvlc()` of AV1.
    mutating func golomb() -> Int {
        var zeros = 0
        while !isBeyondEnd, zeros < 32, next() == 0 { zeros += 1 }
        // No field that is read here may have 32 leading zeros.
        guard zeros < 32, !isBeyondEnd else { return Int(UInt32.max) }
        return (1 << zeros) - 1 + bits(zeros)
    }

    private mutating func next() -> Int {
        if bit == 0 && skipsEmulationPrevention && zeros >= 2 && index < end && bytes[index] == 3 {
            index += 1
            zeros = 0
        }
        guard index < end else {
            isBeyondEnd = true
            return 0
        }
        let value = Int(bytes[index] >> UInt8(7 - bit)) & 1
        bit += 1
        if bit == 8 {
            zeros = bytes[index] == 0 ? zeros + 1 : 0
            bit = 0
            index += 1
        }
        return value
    }
}
