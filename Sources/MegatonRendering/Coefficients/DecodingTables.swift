/// The lookups of all components of a JPEG.
struct DecodingTables {
    /// For each pair of tables one after the other: lookups of coefficients, and of symbols of both kinds; see
    /// ``HuffmanLookups``.
    private(set) var entries: [UInt32] = []
    private(set) var differences: [UInt16] = []
    private(set) var starts: [UInt32] = []
    private(set) var jumps: [UInt16] = []
    /// For each pair, codes of DC and of AC coefficients that are longer than a lookup.
    private(set) var longCodes: [HuffmanTable.LongCodes] = []
    /// For each component, the number of its pair: most have one for luma, and one for both chroma components.
    private(set) var pairs: [Int] = []

    /// Lookups in ``entries`` for each pair.
    static let kinds = 3

    /// - Returns: nil if a table is damaged.
    init?(_ header: BaselineHeader) {
        var known: [(dc: Int, ac: Int)] = []
        for numbers in header.tables {
            if let pair = known.firstIndex(where: { $0 == numbers }) {
                pairs.append(pair)
                continue
            }
            guard let dc = header.segments.dc[numbers.dc].flatMap(HuffmanTable.init),
                let ac = header.segments.ac[numbers.ac].flatMap(HuffmanTable.init)
            else { return nil }
            let lookups = HuffmanLookups(dc: dc, ac: ac)
            differences += lookups.differences
            entries += lookups.coefficients + dc.symbols + ac.symbols
            starts += lookups.starts
            jumps += lookups.jumps
            longCodes += [dc.longCodes, ac.longCodes]
            pairs.append(known.count)
            known.append(numbers)
        }
    }

    /// Finds codes that are longer than a lookup.
    ///
    /// - Parameter kind: 0 for DC coefficients, 1 for AC coefficients.
    /// - Returns: as an entry of ``HuffmanTable/symbols``.
    @inline(never) func longCode(_ bits: Int, pair: Int, kind: Int) -> UInt32 {
        longCodes[2 * pair + kind].entry(for: bits)
    }
}

/// The tables of the last files: many have those of the standard (ITU-T T.81 annex K.3), and making lookups takes as
/// long as decoding an image of 200 by 200 pixels.
struct DecodingTablesCache {
    private var entries: [(key: [[UInt8]], tables: DecodingTables)] = []
    /// The entry that is replaced next.
    private var oldest = 0

    /// Number of files whose tables are kept: 164 KB each, or 246 if each component has its own.
    static let limit = 2

    /// - Returns: nil if a table is damaged.
    mutating func tables(for header: BaselineHeader) -> DecodingTables? {
        // Which component uses which, and their specifications.
        let key = header.tables.flatMap { numbers in
            [
                [UInt8(numbers.dc), UInt8(numbers.ac)], Array(header.segments.dc[numbers.dc] ?? []),
                Array(header.segments.ac[numbers.ac] ?? []),
            ]
        }
        if let known = entries.first(where: { $0.key == key }) { return known.tables }
        guard let tables = DecodingTables(header) else { return nil }
        if entries.count < Self.limit {
            entries.append((key, tables))
        } else {
            entries[oldest] = (key, tables)
            oldest = (oldest + 1) % Self.limit
        }
        return tables
    }
}
