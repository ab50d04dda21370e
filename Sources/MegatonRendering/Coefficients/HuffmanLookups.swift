/// The lookups with which blocks are read, made from a table for DC coefficients and one for AC coefficients.
///
/// All of them are indexed by the next 12 bits. The symbol of an AC coefficient is the number of zeros before it (its
/// run) times 16, plus the number of bits of its value, which follow the code (ITU-T T.81 annex F.1.2.2).
struct HuffmanLookups {
    /// Codes of DC differences with their values: the value times 65,536, plus the bits of both; 0 if the 12 bits do
    /// not have both.
    let differences: [UInt32]
    /// The same for AC coefficients, with the run times 256. At the end of the block the run is 128 or more.
    let coefficients: [UInt32]
    /// All coefficients among the first four that the 12 bits have: their bits, the index of the next coefficient
    /// (``ended`` after the end of the block) times 256, and then 16 bits each for the first, second and fourth.
    let starts: [UInt64]
    /// A jump over all coefficients whose codes the 12 bits have: the bits, also of values behind the 12, and 256 times
    /// the number of coefficients, plus 128 with the end of the block. 0 if they have no whole code.
    let jumps: [UInt16]

    /// The run of the end of a block. Scans of progressive JPEGs end several blocks at once, and add the number of bits
    /// that their number has (ITU-T T.81 annex G.1.2.2).
    static let endOfBlock: UInt32 = 128
    /// The index in ``starts`` of a block that has ended.
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

    static func differences(_ table: HuffmanTable) -> [UInt32] {
        var entries = [UInt32](repeating: 0, count: HuffmanTable.size)
        for index in 0..<HuffmanTable.size {
            let symbol = table.symbols[index]
            let (length, size) = (Int(symbol >> 8), Int(symbol & 255))
            if length == 0 || length + size > HuffmanTable.bits { continue }
            entries[index] = value(in: index, from: length, size) << 16 | UInt32(length + size)
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
    ) -> ([UInt64], [UInt16]) {
        let mask = HuffmanTable.size - 1
        var starts = [UInt64](repeating: 0, count: HuffmanTable.size)
        var jumps = [UInt16](repeating: 0, count: HuffmanTable.size)
        for index in 0..<HuffmanTable.size {
            var (bits, next, entry) = (0, 1, UInt64(0))
            while next <= 4 {
                let coefficient = coefficients[(index &<< bits) & mask]
                let length = Int(coefficient & 255)
                if coefficient == 0 || bits + length > HuffmanTable.bits { break }
                bits += length
                let run = (coefficient >> 8) & 255
                if run >= endOfBlock {
                    next = ended
                    break
                }
                next += Int(run)
                let value = UInt64(coefficient >> 16)
                switch next {
                case 1: entry |= value << 16
                case 2: entry |= value << 32
                case 4: entry |= value << 48
                default: break
                }
                next += 1
            }
            starts[index] = entry | UInt64(next) << 8 | UInt64(bits)
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
