internal import Foundation

/// The segments before the scan of a baseline JPEG with one scan for all components (ITU-T T.81 annex B).
///
/// Only headers as usual encoders write them: everything else, and damage, is left to libjpeg. `JPEGSegments` reads
/// others of the same segments, by unsafe pointers, and more liberally.
struct BaselineHeader {
    struct Component {
        let name: UInt8
        /// Blocks of a unit in a row and in a column.
        let across: Int
        let down: Int
        let quantization: Int
        /// Numbers of its Huffman tables.
        var dc = 0
        var ac = 0
    }

    let width: Int
    let height: Int
    let components: [Component]
    /// Factors of each table, in the zigzag order of the coefficients.
    let quantization: [[Int]]
    /// The specifications of the Huffman tables (annex B.2.4.2).
    let dcSpecifications: [ArraySlice<UInt8>?]
    let acSpecifications: [ArraySlice<UInt8>?]
    /// Units between two restart markers; 0 without.
    let restartInterval: Int
    /// Offset of the scan's data.
    let scan: Int

    /// Units in a row: each has all blocks that belong to the same pixels.
    var unitsAcross: Int { (width + 8 * components[0].across - 1) / (8 * components[0].across) }
    var unitsDown: Int { (height + 8 * components[0].down - 1) / (8 * components[0].down) }

    /// Number of parts between restart markers that the scan has.
    var intervals: Int {
        restartInterval == 0 ? 1 : (unitsAcross * unitsDown + restartInterval - 1) / restartInterval
    }

    /// - Returns: nil if the file is not usual.
    init?(_ file: Data) {
        let bytes = file.span
        guard bytes.count > 4, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return nil }
        var reading = Reading()
        var start = 2
        while start + 4 <= bytes.count {
            let end = start + 2 + (Int(bytes[start + 2]) << 8 | Int(bytes[start + 3]))
            guard bytes[start] == 0xFF, end >= start + 4, end <= bytes.count else { return nil }
            let body = file[(file.startIndex + start + 4)..<(file.startIndex + end)]
            guard reading.take(bytes[start + 1], body) else { return nil }
            start = end
            if reading.isComplete { break }
        }
        guard reading.isComplete, let size = reading.size else { return nil }
        (width, height) = size
        components = reading.components
        quantization = reading.quantization
        dcSpecifications = reading.dc
        acSpecifications = reading.ac
        restartInterval = reading.restartInterval
        scan = start
    }

    /// The segments that have been read.
    private struct Reading {
        var size: (width: Int, height: Int)?
        var components: [Component] = []
        var quantization = [[Int]](repeating: [], count: 4)
        var dc = [ArraySlice<UInt8>?](repeating: nil, count: 4)
        var ac = [ArraySlice<UInt8>?](repeating: nil, count: 4)
        var restartInterval = 0
        /// Whether the header of the scan was read, and all tables are there.
        var isComplete = false

        /// - Returns: false if the segment is not usual.
        mutating func take(_ marker: UInt8, _ data: Data) -> Bool {
            // Other segments of applications, which may be large, and comments.
            if (0xE1...0xED).contains(marker) || marker == 0xEF || marker == 0xFE { return true }
            let body = ArraySlice(data)
            switch marker {
            case 0xC0, 0xC1: return takeFrame(body)
            case 0xC4: return takeHuffmanTables(body)
            case 0xDB: return takeQuantization(body)
            case 0xDD: return takeRestartInterval(body)
            case 0xDA: return takeScan(body)
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

        private mutating func takeFrame(_ body: ArraySlice<UInt8>) -> Bool {
            let bytes = body.map(Int.init)
            guard size == nil, bytes.count >= 6, bytes[0] == 8 else { return false }
            let count = bytes[5]
            guard count == 1 || count == 3, bytes.count == 6 + 3 * count else { return false }
            let (height, width) = (bytes[1] << 8 | bytes[2], bytes[3] << 8 | bytes[4])
            // The longest side that libjpeg accepts.
            guard (1...65_500).contains(width), (1...65_500).contains(height) else { return false }
            size = (width, height)
            components = (0..<count).map { index in
                let (name, factors, table) = (bytes[6 + 3 * index], bytes[7 + 3 * index], bytes[8 + 3 * index])
                return Component(
                    name: UInt8(name),
                    across: factors >> 4,
                    down: factors & 15,
                    quantization: table
                )
            }
            guard components.allSatisfy({ $0.quantization < 4 }), Set(components.map(\.name)).count == count,
                components.dropFirst().allSatisfy({ $0.across == 1 && $0.down == 1 })
            else { return false }
            let factors = (components[0].across, components[0].down)
            return factors == (1, 1) || count == 3 && (factors == (2, 1) || factors == (2, 2))
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

        /// The scan has all components in their order, and all coefficients.
        private mutating func takeScan(_ body: ArraySlice<UInt8>) -> Bool {
            let (bytes, count) = (Array(body), components.count)
            guard count > 0, bytes.count == 4 + 2 * count, Int(bytes[0]) == count,
                bytes.suffix(3) == [0, 63, 0]
            else { return false }
            for index in 0..<count {
                let (name, tables) = (bytes[1 + 2 * index], bytes[2 + 2 * index])
                guard name == components[index].name, tables >> 4 < 4, tables & 15 < 4,
                    dc[Int(tables >> 4)] != nil, ac[Int(tables & 15)] != nil,
                    quantization[components[index].quantization].count == 64
                else { return false }
                components[index].dc = Int(tables >> 4)
                components[index].ac = Int(tables & 15)
            }
            isComplete = true
            return true
        }
    }
}
