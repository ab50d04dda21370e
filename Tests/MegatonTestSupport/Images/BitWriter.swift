public import Foundation

/// Writes the headers of streams bit by bit.
public struct BitWriter: Sendable {
    private var bits: [Bool] = []

    public init() {}

    public mutating func put(_ value: Int, _ count: Int) {
        for index in (0..<count).reversed() { bits.append(value >> index & 1 == 1) }
    }

    /// Writes an unsigned Exp-Golomb code.
    public mutating func golomb(_ value: Int) {
        let width = Int.bitWidth - (value + 1).leadingZeroBitCount
        put(0, width - 1)
        put(value + 1, width)
    }

    /// The bytes; the last one is padded with zeros.
    public var data: Data {
        Data(
            stride(from: 0, to: bits.count, by: 8).map { start in
                (0..<8).reduce(0) { byte, index in
                    byte << 1 | (start + index < bits.count && bits[start + index] ? 1 : 0)
                }
            }
        )
    }
}

/// Headers of AV1 and HEVC streams of any size, without pixels.
public enum TestStream {
    /// A unit of an AV1 stream with its length.
    public static func unit(_ type: Int, _ content: Data) -> Data {
        var (length, bytes) = (content.count, Data([UInt8(type << 3 | 2)]))
        repeat {
            bytes.append(UInt8(length & 0x7F) | (length > 127 ? 0x80 : 0))
            length >>= 7
        } while length > 0
        return bytes + content
    }

    /// An AV1 sequence header of profile 0.
    ///
    /// - Parameter isReduced: whether it is the header of a still image, whose frame has no size of its own.
    public static func av1Sequence(_ width: Int, _ height: Int, isReduced: Bool = true, depth: Int = 8) -> Data {
        var bits = BitWriter()
        bits.put(0, 3)
        bits.put(isReduced ? 1 : 0, 1)
        bits.put(isReduced ? 1 : 0, 1)
        if isReduced {
            bits.put(8, 5)
        } else {
            // No timing, no delays, one operating point of level 2.
            bits.put(0, 7)
            bits.put(0, 12)
            bits.put(0, 5)
        }
        bits.put(15, 4)
        bits.put(15, 4)
        bits.put(width - 1, 16)
        bits.put(height - 1, 16)
        if !isReduced { bits.put(0, 1) }
        bits.put(0, 3)
        if !isReduced {
            // No tools, no order hints, screen content as set by each frame.
            bits.put(0, 5)
            bits.put(0b11, 2)
        }
        bits.put(0, 3)
        bits.put(depth > 8 ? 1 : 0, 1)
        // Not gray, no description, limited range, chroma at an unknown position.
        bits.put(0, 8)
        return unit(1, bits.data)
    }

    /// A key frame of an AV1 stream whose sequence header is not reduced.
    ///
    /// - Parameters:
    ///   - size: the frame's own size, instead of the sequence's.
    ///   - type: 3 for a header alone, 6 for a frame, 7 for a repeated header.
    public static func av1Frame(size: (width: Int, height: Int)? = nil, type: Int = 6) -> Data {
        var bits = BitWriter()
        // A shown key frame, CDFs updated, no screen content.
        bits.put(0b0_00_1_0_0, 6)
        bits.put(size == nil ? 0 : 1, 1)
        if let size {
            bits.put(size.width - 1, 16)
            bits.put(size.height - 1, 16)
        }
        return unit(type, bits.data + Data(count: 16))
    }

    /// A frame of a reduced still image.
    public static var av1Still: Data { unit(6, Data(count: 16)) }

    public static var av1C: Data { HEIFWriter.box("av1C", Data([0x81, 0, 0x0C, 0])) }

    /// An HEVC sequence parameter set.
    ///
    /// - Parameter crop: pixels of the conformance window at the right and at the bottom; even numbers.
    public static func hevcParameters(
        _ width: Int,
        _ height: Int,
        crop: (right: Int, bottom: Int) = (0, 0),
        depth: Int = 8
    ) -> Data {
        var bits = BitWriter()
        bits.put(33 << 9 | 1, 16)
        bits.put(1, 8)
        // The profile and its level.
        bits.put(1, 8)
        for _ in 0..<11 { bits.put(0xFF, 8) }
        bits.golomb(0)
        bits.golomb(1)
        bits.golomb(width)
        bits.golomb(height)
        bits.put(crop == (0, 0) ? 0 : 1, 1)
        if crop != (0, 0) {
            for offset in [0, crop.right / 2, 0, crop.bottom / 2] { bits.golomb(offset) }
        }
        bits.golomb(depth - 8)
        bits.golomb(depth - 8)
        bits.put(0xFF, 16)
        return escaped(bits.data)
    }

    /// The first slice of an image with a single slice.
    public static let hevcSlice = Data([19 << 1, 1, 0x80, 0xFF])

    public static func hvcC(_ units: [Data]) -> Data {
        var content = Data([1]) + Data(count: 21) + [1, 33]
        content += HEIFWriter.big(units.count, 2)
        for unit in units { content += HEIFWriter.big(unit.count, 2) + unit }
        return HEIFWriter.box("hvcC", content)
    }

    /// Units with their lengths in front, as items contain them.
    public static func hevc(_ units: [Data]) -> Data {
        units.reduce(Data()) { $0 + HEIFWriter.big($1.count, 4) + $1 }
    }

    /// Inserts a 3 before a small byte that follows two zeros.
    private static func escaped(_ data: Data) -> Data {
        var (result, zeros) = (Data(), 0)
        for byte in data {
            if zeros >= 2 && byte <= 3 {
                result.append(3)
                zeros = 0
            }
            result.append(byte)
            zeros = byte == 0 ? zeros + 1 : 0
        }
        return result
    }
}
