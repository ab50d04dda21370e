/// A baseline JPEG whose coefficients are known: they are written here, without a DCT.
public struct BaselineJPEG: Sendable {
    public var width: Int
    public var height: Int
    /// Luma blocks of a unit in a row and in a column.
    public var across = 1
    public var down = 1
    /// 1 or 3.
    public var components = 3
    /// Units between restart markers; 0 without.
    public var restartInterval = 0
    public var dc: Table
    public var ac: Table
    /// Coefficients in zigzag order, of all blocks in the order of the scan.
    public var blocks: [[Int]]

    /// A Huffman table.
    public struct Table: Sendable {
        /// The numbers of codes of 1 to 16 bits, and the symbols in their order.
        public var specification: [UInt8]
        fileprivate var codes: [Int: (code: Int, length: Int)] = [:]

        /// A table of codes with lengths at random, as short and as long as there can be.
        public init(_ symbols: [UInt8], using random: inout SeededGenerator) {
            let symbols = symbols.shuffled(using: &random)
            var (counts, next, free, code) = ([UInt8](), 0, 1, 0)
            for length in 1...16 {
                (free, code) = (free * 2, code * 2)
                let left = symbols.count - next
                var count = length == 16 ? left : Int.random(in: 0...min(left, free), using: &random)
                // The codes that are left must fit into what these leave, beside the one of ones alone, which is none.
                while count > 0 && (left - count + 1) > (free - count) << (16 - length) { count -= 1 }
                for offset in 0..<count { codes[Int(symbols[next + offset])] = (code + offset, length) }
                counts.append(UInt8(count))
                (next, free, code) = (next + count, free - count, code + count)
            }
            specification = counts + symbols
        }
    }

    /// Units of the image.
    public var units: Int { ((width + 8 * across - 1) / (8 * across)) * ((height + 8 * down - 1) / (8 * down)) }
    /// Blocks of each unit.
    public var blocksOfUnit: Int { components == 1 ? 1 : across * down + 2 }

    /// An image of any kind that the reader of low coefficients accepts.
    ///
    /// - Parameter side: maximum width and height, in pixels.
    public static func random(upTo side: Int, using random: inout SeededGenerator) -> BaselineJPEG {
        let (width, height) = (Int.random(in: 1...side, using: &random), Int.random(in: 1...side, using: &random))
        let dc = Table((0...11).map { UInt8($0) }, using: &random)
        // Runs of up to 15 zeros before values of up to 10 bits, the end of a block, and 16 zeros.
        let values: [UInt8] = (0..<160).map { UInt8(($0 / 10) << 4 | ($0 % 10 + 1)) }
        var image = BaselineJPEG(
            width: width,
            height: height,
            dc: dc,
            ac: Table(values + [0x00, 0xF0], using: &random),
            blocks: []
        )
        image.components = random.once(in: 4) ? 1 : 3
        if image.components == 3 { (image.across, image.down) = random.pick([(1, 1), (2, 1), (2, 2)]) }
        if random.once(in: 2) { image.restartInterval = Int.random(in: 1...9, using: &random) }
        let density = random.pick([2, 8, 64])
        image.blocks = (0..<(image.units * image.blocksOfUnit)).map { _ in
            (0..<64).map { index in
                if index > 0 && !random.once(in: density) { return 0 }
                let limit = (1 << Int.random(in: 0...(index == 0 ? 10 : 9), using: &random)) - 1
                return Int.random(in: -limit...limit, using: &random)
            }
        }
        return image
    }

    /// The file.
    public var bytes: [UInt8] {
        var file: [UInt8] = [0xFF, 0xD8]
        func segment(_ marker: UInt8, _ body: [UInt8]) {
            file += [0xFF, marker, UInt8((body.count + 2) >> 8), UInt8((body.count + 2) & 255)] + body
        }
        segment(0xDB, [0] + (0..<64).map { UInt8(1 + $0 % 7) })
        let names = (1...components).map { UInt8($0) }
        let factors = [UInt8(across << 4 | down), 0x11, 0x11]
        segment(
            0xC0,
            [8, UInt8(height >> 8), UInt8(height & 255), UInt8(width >> 8), UInt8(width & 255), UInt8(components)]
                + names.flatMap { [$0, factors[Int($0) - 1], 0] }
        )
        segment(0xC4, [0x00] + dc.specification)
        segment(0xC4, [0x10] + ac.specification)
        if restartInterval > 0 { segment(0xDD, [UInt8(restartInterval >> 8), UInt8(restartInterval & 255)]) }
        segment(0xDA, [UInt8(components)] + names.flatMap { [$0, 0] } + [0, 63, 0])
        return file + scan + [0xFF, 0xD9]
    }

    private var scan: [UInt8] {
        var (bytes, means, restarts) = ([UInt8](), [0, 0, 0], 0)
        var bits = EntropyWriter()
        for unit in 0..<units {
            if restartInterval > 0 && unit > 0 && unit % restartInterval == 0 {
                bytes += bits.end() + [0xFF, UInt8(0xD0 + restarts % 8)]
                (bits, means, restarts) = (EntropyWriter(), [0, 0, 0], restarts + 1)
            }
            for index in 0..<blocksOfUnit {
                let component = components == 1 ? 0 : max(0, index - across * down + 1)
                let block = blocks[unit * blocksOfUnit + index]
                bits.put(block, after: means[component], dc, ac)
                means[component] = block[0]
            }
        }
        return bytes + bits.end()
    }
}

/// Writes the codes of blocks (ITU-T T.81 annex F.1.2).
private struct EntropyWriter {
    private var bytes: [UInt8] = []
    private var (byte, count) = (0, 0)

    private mutating func put(_ value: Int, _ length: Int) {
        for index in (0..<length).reversed() {
            (byte, count) = (byte << 1 | (value >> index & 1), count + 1)
            if count < 8 { continue }
            bytes.append(UInt8(byte))
            if byte == 0xFF { bytes.append(0) }
            (byte, count) = (0, 0)
        }
    }

    private mutating func put(_ symbol: Int, _ table: BaselineJPEG.Table) {
        guard let code = table.codes[symbol] else { preconditionFailure("no code for the symbol \(symbol)") }
        put(code.code, code.length)
    }

    private mutating func putValue(_ value: Int, _ size: Int) { put(value < 0 ? value + (1 << size) - 1 : value, size) }

    private static func size(of value: Int) -> Int { Int.bitWidth - abs(value).leadingZeroBitCount }

    mutating func put(_ block: [Int], after mean: Int, _ dc: BaselineJPEG.Table, _ ac: BaselineJPEG.Table) {
        let difference = block[0] - mean
        put(Self.size(of: difference), dc)
        putValue(difference, Self.size(of: difference))
        var run = 0
        for value in block.dropFirst() {
            if value == 0 {
                run += 1
                continue
            }
            while run > 15 {
                put(0xF0, ac)
                run -= 16
            }
            put(run << 4 | Self.size(of: value), ac)
            putValue(value, Self.size(of: value))
            run = 0
        }
        if run > 0 { put(0x00, ac) }
    }

    /// The bytes; the last one is padded with ones.
    mutating func end() -> [UInt8] {
        while count > 0 { put(1, 1) }
        return bytes
    }
}
