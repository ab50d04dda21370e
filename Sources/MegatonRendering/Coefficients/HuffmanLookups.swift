/// The lookups with which blocks are read, made from a table for DC coefficients and one for AC coefficients.
///
/// All of them are indexed by the next 12 bits. The symbol of an AC coefficient is the number of zeros before it (its
/// run) times 16, plus the number of bits of its value, which follow the code (ITU-T T.81 annex F.1.2.2).
struct HuffmanLookups {
    /// Codes of DC differences with their values: the value times 16, plus the bits of both; 0 if the 12 bits do not
    /// have both. Small, as ``starts`` and ``jumps``: the indices are spread over a whole table, and the tables of all
    /// components should fit into the first cache of a processor.
    let differences: [UInt16]
    /// The same for AC coefficients: the value times 65,536, the run times 256, and the bits. At the end of the block
    /// the run is 128 or more.
    let coefficients: [UInt32]
    /// All coefficients among the first four that the 12 bits have and that 8 bits can hold: four bits for the number
    /// of their bits, four for the index of the next coefficient (0 after the end of the block), and then 8 each for
    /// the first, second and fourth.
    let starts: [UInt32]
    /// A jump over all coefficients whose codes the 12 bits have: the bits, also of values behind the 12, and 256 times
    /// the number of coefficients, plus 128 with the end of the block. 0 if they have no whole code.
    let jumps: [UInt16]

    /// The run of the end of a block. Scans of progressive JPEGs end several blocks at once, and add the number of bits
    /// that their number has (ITU-T T.81 annex G.1.2.2).
    static let endOfBlock: UInt32 = 128
    /// The index of the next coefficient in a block that has ended.
    static let ended = 127
    /// A run of 16 zeros without a coefficient.
    private static let longRun = 0xF0

    init(dc: HuffmanTable, ac: HuffmanTable) {
        differences = Self.differences(dc)
        let coefficients = Self.coefficients(ac)
        self.coefficients = coefficients
        (starts, jumps) = Self.startsAndJumps(ac.symbols.span, coefficients.span)
    }

    /// The value of the bits behind a code (annex F.1.2.1): those that begin with 0 are negative.
    @inline(__always) static func value(_ bits: Int, _ size: Int) -> Int {
        size > 0 && bits < 1 &<< (size &- 1) ? bits &- (1 &<< size) &+ 1 : bits
    }

    /// The value in the bits from a position of an index on.
    private static func value(in index: Int, from position: Int, _ size: Int) -> UInt32 {
        let bits = (index >> (HuffmanTable.bits - position - size)) & ((1 << size) - 1)
        return UInt32(UInt16(truncatingIfNeeded: value(bits, size)))
    }

    static func differences(_ table: HuffmanTable) -> [UInt16] {
        var entries = [UInt16](repeating: 0, count: HuffmanTable.size)
        for index in 0..<HuffmanTable.size {
            let symbol = table.symbols[index]
            let (length, size) = (Int(symbol >> 8), Int(symbol & 255))
            if length == 0 || length + size > HuffmanTable.bits { continue }
            let value = UInt16(truncatingIfNeeded: value(in: index, from: length, size))
            entries[index] = value << 4 | UInt16(length + size)
        }
        return entries
    }

    static func coefficients(_ table: HuffmanTable) -> [UInt32] {
        var entries = [UInt32](repeating: 0, count: HuffmanTable.size)
        for index in 0..<HuffmanTable.size {
            let symbol = table.symbols[index]
            let (length, size, run) = (Int(symbol >> 8), Int(symbol & 15), (symbol & 255) >> 4)
            if length == 0 || length + size > HuffmanTable.bits { continue }
            if size == 0 {
                entries[index] = (run == 15 ? run : endOfBlock + run) << 8 | UInt32(length)
            } else {
                entries[index] = value(in: index, from: length, size) << 16 | run << 8 | UInt32(length + size)
            }
        }
        return entries
    }

    private static func startsAndJumps(
        _ symbols: borrowing Span<UInt32>,
        _ coefficients: borrowing Span<UInt32>
    ) -> ([UInt32], [UInt16]) {
        let mask = HuffmanTable.size - 1
        var starts = [UInt32](repeating: 0, count: HuffmanTable.size)
        var jumps = [UInt16](repeating: 0, count: HuffmanTable.size)
        for index in 0..<HuffmanTable.size {
            var (bits, next, entry) = (0, 1, UInt32(0))
            while next <= 4 {
                let coefficient = coefficients[(index &<< bits) & mask]
                let length = Int(coefficient & 255)
                if coefficient == 0 || bits + length > HuffmanTable.bits { break }
                let run = (coefficient >> 8) & 255
                if run >= endOfBlock {
                    bits += length
                    next = 0
                    break
                }
                let value = Int32(bitPattern: coefficient) >> 16
                if next + Int(run) > 14 || Int8(exactly: value) == nil { break }
                bits += length
                next += Int(run)
                let byte = UInt32(UInt8(truncatingIfNeeded: value))
                switch next {
                case 1: entry |= byte << 8
                case 2: entry |= byte << 16
                case 4: entry |= byte << 24
                default: break
                }
                next += 1
            }
            starts[index] = entry | UInt32(next) << 4 | UInt32(bits)
            jumps[index] = jump(from: index, symbols)
        }
        return (starts, jumps)
    }

    private static func jump(from index: Int, _ symbols: borrowing Span<UInt32>) -> UInt16 {
        var (bits, count) = (0, 0)
        while bits < HuffmanTable.bits {
            let entry = symbols[(index &<< bits) & (HuffmanTable.size - 1)]
            let (length, symbol) = (Int(entry >> 8), Int(entry & 255))
            if length == 0 || bits + length > HuffmanTable.bits { break }
            if symbol & 15 == 0 && symbol != longRun { return UInt16((count | 128) << 8 | (bits + length)) }
            // A block has no more.
            if count + (symbol >> 4) + 1 > 63 { break }
            bits += length + (symbol & 15)
            count += (symbol >> 4) + 1
        }
        return UInt16(count << 8 | bits)
    }
}
