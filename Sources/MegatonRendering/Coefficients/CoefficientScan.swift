/// Reads the blocks of a scan.
struct CoefficientScan<Form: BlockForm> {
    let tables: DecodingTables
    /// The blocks of a unit.
    let blocks: [Block]
    let unitsAcross: Int
    let units: Int
    /// Units between two restart markers; 0 without.
    let restartInterval: Int

    /// A block of a unit.
    struct Block {
        let component: Int
        let factors: LowCoefficients
        /// Number of its pair of tables.
        let pair: Int
        /// Its first byte in the first unit, and the distances to those in the next unit and in the next row of units.
        let start: Int
        let stride: Int
        let nextUnit: Int
        let nextRow: Int
    }

    /// - Returns: whether the data has all blocks, and nothing else.
    func read(_ data: EntropyData, to output: inout [UInt8]) -> Bool {
        let (bytes, blocks) = (data.bytes, blocks)
        let (entries, differences) = (tables.entries, tables.differences)
        let (starts, jumps) = (tables.starts, tables.jumps)
        var target = output.mutableSpan
        var (unit, column, row) = (0, 0, 0)
        for interval in data.intervals {
            let end = restartInterval > 0 ? min(units, unit + restartInterval) : units
            var bits = CoefficientBits(at: interval.lowerBound)
            // Each lookup refills for the next one.
            bits.refill(bytes.span)
            // The means of the last blocks of the components (ITU-T T.81 annex F.1.1.5.1).
            var (luma, blue, red) = (0, 0, 0)
            while unit < end {
                for index in blocks.indices {
                    let block = blocks[index]
                    // A block may go beyond the end, into the next interval or the padding, and no further.
                    if bits.position > interval.upperBound &+ 8 { return false }
                    var low = LowCoefficients()
                    low.mean = block.component == 0 ? luma : block.component == 1 ? blue : red
                    let isValid = read(
                        &low,
                        pair: block.pair,
                        &bits,
                        bytes.span,
                        entries.span,
                        differences.span,
                        starts.span,
                        jumps.span
                    )
                    // libjpeg keeps 16 bits of each coefficient.
                    if !isValid || low.mean != Int(Int16(truncatingIfNeeded: low.mean)) { return false }
                    switch block.component {
                    case 0: luma = low.mean
                    case 1: blue = low.mean
                    default: red = low.mean
                    }
                    Form.write(
                        low,
                        times: block.factors,
                        to: &target,
                        at: block.start &+ column &* block.nextUnit &+ row &* block.nextRow,
                        stride: block.stride
                    )
                }
                unit &+= 1
                column &+= 1
                if column == unitsAcross { (column, row) = (0, row &+ 1) }
            }
            // Less than a byte of padding.
            if (bits.consumed + 7) / 8 != interval.upperBound { return false }
        }
        return unit == units
    }

    /// Reads one block.
    ///
    /// - Parameters:
    ///   - block: the mean of the last block of the component; then the coefficients of this one.
    /// - Returns: whether the block is one.
    @inline(__always) private func read(
        _ block: inout LowCoefficients,
        pair: Int,
        _ state: inout CoefficientBits,
        _ bytes: borrowing Span<UInt8>,
        _ entries: borrowing Span<UInt32>,
        _ differences: borrowing Span<UInt16>,
        _ starts: borrowing Span<UInt32>,
        _ jumps: borrowing Span<UInt16>
    ) -> Bool {
        // Kept in registers.
        var bits = state
        defer { state = bits }
        let difference = differences[pair &* HuffmanTable.size &+ bits.indexAndRefill(bytes)]
        if difference != 0 {
            bits.drop(Int(difference & 15))
            block.mean &+= Int(Int16(bitPattern: difference) >> 4)
        } else {
            let symbol = symbol(.dcSymbols, pair: pair, bits, entries)
            if symbol == 0 { return false }
            bits.drop(Int(symbol >> 8))
            block.mean &+= bits.readValue(Int(symbol & 15))
        }
        // The index of the next coefficient, in zigzag order.
        var next = 1
        if Form.hasDetails {
            next = readDetails(&block, pair: pair, &bits, bytes, entries, starts)
            if next > 64 { return next == HuffmanLookups.ended }
        }
        return jump(from: next, pair: pair, &bits, bytes, entries, jumps)
    }

    /// Lookups of ``DecodingTables/entries``.
    private enum Kind: Int {
        case coefficients, dcSymbols, acSymbols

        @inline(__always) func start(_ pair: Int) -> Int {
            (pair &* DecodingTables.kinds &+ rawValue) &* HuffmanTable.size
        }
    }

    /// The next code, also if it is long.
    ///
    /// - Returns: as an entry of ``HuffmanTable/symbols``; 0 if there is none.
    @inline(__always) private func symbol(
        _ kind: Kind,
        pair: Int,
        _ bits: CoefficientBits,
        _ entries: borrowing Span<UInt32>
    ) -> UInt32 {
        let symbol = entries[kind.start(pair) &+ bits.index]
        if symbol != 0 { return symbol }
        return tables.longCode(bits.longestCode, pair: pair, kind: kind == .dcSymbols ? 0 : 1)
    }

    /// Reads the first four coefficients after the mean.
    ///
    /// - Returns: the index of the next one; ``HuffmanLookups/ended`` after the end of the block, or 128 if there is no
    ///   such code.
    @inline(__always) private func readDetails(
        _ block: inout LowCoefficients,
        pair: Int,
        _ bits: inout CoefficientBits,
        _ bytes: borrowing Span<UInt8>,
        _ entries: borrowing Span<UInt32>,
        _ starts: borrowing Span<UInt32>
    ) -> Int {
        let start = starts[pair &* HuffmanTable.size &+ bits.indexAndRefill(bytes)]
        bits.drop(Int(truncatingIfNeeded: start & 15))
        var next = Int(truncatingIfNeeded: (start >> 4) & 15)
        block.across = Int(Int8(truncatingIfNeeded: start >> 8))
        block.down = Int(Int8(truncatingIfNeeded: start >> 16))
        block.both = Int(Int8(truncatingIfNeeded: start >> 24))
        if next == 0 { return HuffmanLookups.ended }
        while next <= 4 {
            var (run, value) = (0, 0)
            let coefficient = entries[Kind.coefficients.start(pair) &+ bits.indexAndRefill(bytes)]
            if coefficient != 0 {
                bits.drop(Int(coefficient & 255))
                run = Int((coefficient >> 8) & 255)
                if run >= Int(HuffmanLookups.endOfBlock) { return HuffmanLookups.ended }
                value = Int(Int32(bitPattern: coefficient) >> 16)
            } else {
                let symbol = symbol(.acSymbols, pair: pair, bits, entries)
                if symbol == 0 { return 128 }
                bits.drop(Int(symbol >> 8))
                run = Int((symbol >> 4) & 15)
                if symbol & 15 == 0 && run < 15 { return HuffmanLookups.ended }
                value = bits.readValue(Int(symbol & 15))
            }
            next &+= run
            switch next {
            case 1: block.across = value
            case 2: block.down = value
            case 4: block.both = value
            default: break
            }
            next &+= 1
        }
        return next
    }

    /// Jumps over the coefficients that are left.
    ///
    /// - Returns: whether the block ends with the 63rd, or before.
    @inline(__always) private func jump(
        from first: Int,
        pair: Int,
        _ bits: inout CoefficientBits,
        _ bytes: borrowing Span<UInt8>,
        _ entries: borrowing Span<UInt32>,
        _ jumps: borrowing Span<UInt16>
    ) -> Bool {
        var next = first
        let start = pair &* HuffmanTable.size
        while next < 64 {
            let jump = jumps[start &+ bits.indexAndRefill(bytes)]
            let after = next &+ Int(jump >> 8)
            if jump != 0 && after < 64 {
                bits.drop(Int(jump & 255))
                next = after
                continue
            }
            // The last coefficient, or the end of the block before it.
            if jump != 0 && (after == 64 || after >= 128 && after < 192) {
                bits.drop(Int(jump & 255))
                return true
            }
            let symbol = symbol(.acSymbols, pair: pair, bits, entries)
            if symbol == 0 { return false }
            let (length, run) = (Int(symbol & 15), Int((symbol >> 4) & 15))
            bits.drop(Int(symbol >> 8) &+ length)
            if length == 0 && run < 15 { return true }
            next &+= run &+ 1
        }
        return next == 64
    }
}
