/// One Huffman table of a baseline JPEG (ITU-T T.81 annex C), as lookups by the next 12 bits.
struct HuffmanTable {
    /// Bits by which all lookups are made. Longer codes are rare by nature, and have a search of their own.
    static let bits = 12
    static let size = 1 << bits
    static let longestCode = 16

    /// A decoded code: its number of bits times 256, plus its symbol. Bits that begin a longer code, or none, have 0.
    let symbols: [UInt32]
    /// The longer codes.
    let longCodes: LongCodes

    /// Codes of 13 to 16 bits, by their length.
    struct LongCodes {
        fileprivate var first: [Int] = []
        fileprivate var count: [Int] = []
        fileprivate var symbols: [[UInt8]] = []

        /// The code with which 16 bits begin.
        ///
        /// - Returns: as an entry of ``HuffmanTable/symbols``; 0 if no code begins like that.
        func entry(for bits: Int) -> UInt32 {
            for index in first.indices {
                let length = HuffmanTable.bits + 1 + index
                let position = (bits >> (HuffmanTable.longestCode - length)) - first[index]
                if position >= 0 && position < count[index] {
                    return UInt32(length) << 8 | UInt32(symbols[index][position])
                }
            }
            return 0
        }
    }

    /// - Parameter specification: the numbers of codes of 1 to 16 bits, and the symbols in their order.
    /// - Returns: nil if it has other lengths, or more codes of a length than there can be. Ones alone are no code
    ///   (ITU-T T.81 annex C).
    init?(_ specification: ArraySlice<UInt8>) {
        guard specification.count >= Self.longestCode else { return nil }
        let counts = specification.prefix(Self.longestCode)
        let values = specification.dropFirst(Self.longestCode)
        guard counts.reduce(0, { $0 + Int($1) }) == values.count, values.count <= 256 else { return nil }
        var (code, next) = (0, values.startIndex)
        var symbols = [UInt32](repeating: 0, count: Self.size)
        var long = LongCodes()
        for (index, count) in counts.enumerated() {
            let (length, count) = (index + 1, Int(count))
            guard count == 0 || code + count < 1 << length else { return nil }
            let ofLength = values[next..<(next + count)]
            if length <= Self.bits {
                // Each code has all entries that begin with it.
                let span = 1 << (Self.bits - length)
                for (offset, symbol) in ofLength.enumerated() {
                    let entry = UInt32(length) << 8 | UInt32(symbol)
                    let start = (code + offset) * span
                    for position in start..<(start + span) { symbols[position] = entry }
                }
            } else {
                long.first.append(code)
                long.count.append(count)
                long.symbols.append(Array(ofLength))
            }
            next += count
            code = (code + count) << 1
        }
        self.symbols = symbols
        longCodes = long
    }
}
