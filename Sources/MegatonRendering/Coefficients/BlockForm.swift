/// The lowest coefficients of a block of 8 by 8 samples, or the factors by which they are multiplied.
struct LowCoefficients {
    /// Eight times the mean.
    var mean = 0
    /// Once across, once down, and both: the first, second and fourth in zigzag order.
    var across = 0
    var down = 0
    var both = 0
}

/// The form in which blocks leave the reader.
protocol BlockForm {
    /// Whether it needs more than the mean.
    static var hasDetails: Bool { get }
    /// Bytes that a block has in a row of the output, and rows.
    static var width: Int { get }
    static var height: Int { get }

    /// - Parameters:
    ///   - factors: those of the component.
    ///   - start: the first byte of the block.
    ///   - stride: bytes between rows.
    static func write(
        _ block: LowCoefficients,
        times factors: LowCoefficients,
        to output: inout MutableSpan<UInt8>,
        at start: Int,
        stride: Int
    )
}

/// A block as one sample: its mean. libjpeg makes the same at an eighth of the size, except that means far outside of
/// the range of samples, which no encoder writes, wrap around there.
enum MeanBlock: BlockForm {
    static let hasDetails = false
    static let width = 1
    static let height = 1

    @inline(__always) static func write(
        _ block: LowCoefficients,
        times factors: LowCoefficients,
        to output: inout MutableSpan<UInt8>,
        at start: Int,
        stride: Int
    ) {
        output[start] = sample(block.mean &* factors.mean)
    }

    /// A sample whose value is an eighth of a sum of coefficients.
    @inline(__always) static func sample(_ sum: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: max(0, min(255, (sum &+ 4) >> 3 &+ 128)))
    }
}

/// A block as two by two samples: the inverse DCT of its four lowest coefficients.
///
/// libjpeg averages the samples of the whole block instead, for which it needs all coefficients.
enum QuarterBlock: BlockForm {
    static let hasDetails = true
    static let width = 2
    static let height = 2

    @inline(__always) static func write(
        _ block: LowCoefficients,
        times factors: LowCoefficients,
        to output: inout MutableSpan<UInt8>,
        at start: Int,
        stride: Int
    ) {
        // Eight times the samples, with half of their last bit.
        let mean = block.mean &* factors.mean &+ 8 * 128 + 4
        let (across, down) = (block.across &* factors.across, block.down &* factors.down)
        let both = block.both &* factors.both
        let (left, right) = (mean &+ across, mean &- across)
        var above = ((left &+ down &+ both) >> 3, (right &+ down &- both) >> 3)
        var below = ((left &- down &- both) >> 3, (right &- down &+ both) >> 3)
        // One comparison for all of them, as few are out of range.
        if (above.0 | above.1 | below.0 | below.1) & ~255 != 0 {
            above = (max(0, min(255, above.0)), max(0, min(255, above.1)))
            below = (max(0, min(255, below.0)), max(0, min(255, below.1)))
        }
        let last = start &+ stride &+ 1
        // With this check the compiler needs no others.
        precondition(start >= 0 && stride > 0 && last < output.count)
        output[start] = UInt8(truncatingIfNeeded: above.0)
        output[start &+ 1] = UInt8(truncatingIfNeeded: above.1)
        output[last &- 1] = UInt8(truncatingIfNeeded: below.0)
        output[last] = UInt8(truncatingIfNeeded: below.1)
    }
}
