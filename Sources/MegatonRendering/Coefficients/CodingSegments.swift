internal import Foundation

/// The segments that a JPEG has before its scans and between them (ITU-T T.81 annex B).
///
/// Only as usual encoders write them: everything else, and damage, is left to libjpeg. `JPEGSegments` reads others of
/// the same segments, by unsafe pointers, and more liberally.
struct CodingSegments {
    private(set) var frame: CoefficientFrame?
    /// Factors of each table, in the zigzag order of the coefficients; empty without the table.
    private(set) var quantization = [[Int]](repeating: [], count: 4)
    /// The specifications of the Huffman tables (annex B.2.4.2).
    private(set) var dc = [ArraySlice<UInt8>?](repeating: nil, count: 4)
    private(set) var ac = [ArraySlice<UInt8>?](repeating: nil, count: 4)
    /// Units between two restart markers; 0 without.
    private(set) var restartInterval = 0

    /// A segment: its marker, and its data without the length.
    struct Segment {
        let marker: UInt8
        let body: Data
        /// Offset of the byte behind it.
        let end: Int
    }

    static let startOfScan: UInt8 = 0xDA
    static let quantizationTables: UInt8 = 0xDB

    /// The segment at an offset; nil if there is none, or if it is not whole.
    static func segment(of file: Data, at start: Int) -> Segment? {
        let bytes = file.span
        guard start + 4 <= bytes.count, bytes[start] == 0xFF else { return nil }
        let end = start + 2 + (Int(bytes[start + 2]) << 8 | Int(bytes[start + 3]))
        guard end >= start + 4, end <= bytes.count else { return nil }
        let body = file[(file.startIndex + start + 4)..<(file.startIndex + end)]
        return Segment(marker: bytes[start + 1], body: body, end: end)
    }

    /// The factors of a component's lowest coefficients; its table must be there.
    func factors(of component: CoefficientFrame.Component) -> LowCoefficients {
        let table = quantization[component.quantization]
        return LowCoefficients(mean: table[0], across: table[1], down: table[2], both: table[4])
    }

    /// Offset of the first segment; nil if the file is no JPEG.
    static func first(of file: Data) -> Int? {
        let bytes = file.span
        return bytes.count > 4 && bytes[0] == 0xFF && bytes[1] == 0xD8 ? 2 : nil
    }

    /// - Returns: false if the segment is not usual.
    mutating func take(_ marker: UInt8, _ data: Data) -> Bool {
        // Other segments of applications, which may be large, and comments.
        if (0xE1...0xED).contains(marker) || marker == 0xEF || marker == 0xFE { return true }
        let body = ArraySlice(data)
        switch marker {
        case 0xC0, 0xC1, 0xC2: return takeFrame(body, isProgressive: marker == 0xC2)
        case 0xC4: return takeHuffmanTables(body)
        case 0xDB: return takeQuantization(body)
        case 0xDD: return takeRestartInterval(body)
        case 0xE0: return Self.isKnownJFIF(body)
        case 0xEE: return Self.isKnownAdobe(body)
        default: return false
        }
    }

    /// libjpeg warns of a JFIF version other than 1.
    private static func isKnownJFIF(_ body: ArraySlice<UInt8>) -> Bool {
        !body.starts(with: "JFIF\0".utf8) || body.dropFirst(5).first == 1
    }

    /// The colors of Adobe's segment are those of all files that come here: 1 is YCbCr.
    private static func isKnownAdobe(_ body: ArraySlice<UInt8>) -> Bool {
        !body.starts(with: "Adobe".utf8) || body.dropFirst(11).first == 1
    }

    private mutating func takeFrame(_ body: ArraySlice<UInt8>, isProgressive: Bool) -> Bool {
        guard frame == nil else { return false }
        frame = CoefficientFrame(body, isProgressive: isProgressive)
        return frame != nil
    }

    private mutating func takeQuantization(_ body: ArraySlice<UInt8>) -> Bool {
        var rest = body
        while let first = rest.popFirst() {
            let isWide = first >> 4 == 1
            let bytes = rest.prefix(isWide ? 128 : 64).map(Int.init)
            guard first >> 4 <= 1, first & 15 < 4, bytes.count == (isWide ? 128 : 64) else { return false }
            rest = rest.dropFirst(bytes.count)
            quantization[Int(first & 15)] =
                isWide ? (0..<64).map { bytes[2 * $0] << 8 | bytes[2 * $0 + 1] } : bytes
        }
        return true
    }

    private mutating func takeHuffmanTables(_ body: ArraySlice<UInt8>) -> Bool {
        var rest = body
        while let first = rest.popFirst() {
            let count = rest.prefix(16).reduce(0) { $0 + Int($1) }
            guard first >> 4 <= 1, first & 15 < 4, count <= 256, rest.count >= 16 + count else { return false }
            let specification = rest.prefix(16 + count)
            rest = rest.dropFirst(16 + count)
            if first >> 4 == 1 {
                ac[Int(first & 15)] = specification
            } else {
                // A difference has at most 15 bits, as libjpeg requires.
                guard specification.dropFirst(16).allSatisfy({ $0 <= 15 }) else { return false }
                dc[Int(first & 15)] = specification
            }
        }
        return true
    }

    private mutating func takeRestartInterval(_ body: ArraySlice<UInt8>) -> Bool {
        let bytes = body.map(Int.init)
        guard bytes.count == 2 else { return false }
        restartInterval = bytes[0] << 8 | bytes[1]
        return true
    }
}
