/// The lowest coefficients of all blocks of a progressive JPEG, which its scans bring one after the other (ITU-T T.81
/// annex G).
///
/// libjpeg keeps all 64 coefficients of each block, 128 bytes. Here a block has as many as a shrunk image needs: one,
/// or four.
struct ProgressiveCoefficients {
    let frame: CoefficientFrame
    private let needs: JPEGScanNeeds
    /// Values that a block has: the mean alone, or the four lowest coefficients.
    private let perBlock: Int
    private var values: [Int16]
    /// For each component, the position of its first block and the blocks of a row, in values.
    private let parts: [(start: Int, stride: Int)]
    /// For each coefficient of each component, the low bits that are missing; -1 before its first scan.
    private var missingBits: [Int]

    init(_ frame: CoefficientFrame, _ needs: JPEGScanNeeds) {
        self.frame = frame
        self.needs = needs
        perBlock = needs.coefficients == 1 ? 1 : 4
        var (parts, length): ([(start: Int, stride: Int)], Int) = ([], 0)
        for component in frame.components {
            let stride = frame.unitsAcross * component.across * perBlock
            parts.append((length, stride))
            length += stride * frame.unitsDown * component.down
        }
        self.parts = parts
        values = [Int16](repeating: 0, count: length)
        missingBits = [Int](repeating: -1, count: 64 * frame.components.count)
    }

    /// Whether all blocks have the needed coefficients, as precisely as needed.
    var isComplete: Bool {
        frame.components.indices.allSatisfy { component in
            (0..<64).allSatisfy { index in
                let allowed = index == 0 ? needs.missingBitsOfFirst : needs.missingBitsOfOthers
                return !isNeeded(index) || (0...allowed).contains(missingBits[64 * component + index])
            }
        }
    }

    private func isNeeded(_ index: Int) -> Bool { needs.coefficients >> UInt64(index) & 1 == 1 }

    /// The coefficients of a block of a component.
    @inline(__always) func block(_ column: Int, _ row: Int, of component: Int) -> LowCoefficients {
        let start = parts[component].start &+ row &* parts[component].stride &+ column &* perBlock
        var block = LowCoefficients(mean: Int(values[start]))
        if perBlock == 4 {
            block.across = Int(values[start &+ 1])
            block.down = Int(values[start &+ 2])
            block.both = Int(values[start &+ 3])
        }
        return block
    }

    // MARK: - The blocks of a scan

    /// The blocks of a scan, in units: one block, or those of all components that belong to the same pixels.
    private struct Layout {
        let unitsAcross: Int
        let units: Int
        let blocks: [Block]

        struct Block {
            /// Number of its component within the scan.
            let component: Int
            /// Its position in the first unit, and the distances to those in the next unit and the next row of units.
            let start: Int
            let nextUnit: Int
            let nextRow: Int
        }
    }

    private func layout(of scan: ProgressiveScan) -> Layout {
        if scan.components.count == 1 {
            let index = scan.components[0].index
            let (across, down) = frame.blocks(of: index)
            let block = Layout.Block(
                component: 0,
                start: parts[index].start,
                nextUnit: perBlock,
                nextRow: parts[index].stride
            )
            return Layout(unitsAcross: across, units: across * down, blocks: [block])
        }
        var blocks: [Layout.Block] = []
        for (number, component) in scan.components.enumerated() {
            let (form, part) = (frame.components[component.index], parts[component.index])
            for down in 0..<form.down {
                for across in 0..<form.across {
                    blocks.append(
                        Layout.Block(
                            component: number,
                            start: part.start + down * part.stride + across * perBlock,
                            nextUnit: form.across * perBlock,
                            nextRow: form.down * part.stride
                        )
                    )
                }
            }
        }
        return Layout(unitsAcross: frame.unitsAcross, units: frame.unitsAcross * frame.unitsDown, blocks: blocks)
    }

    /// Number of parts between restart markers that a scan has.
    func intervals(of scan: ProgressiveScan, _ restartInterval: Int) -> Int {
        restartInterval == 0 ? 1 : (layout(of: scan).units + restartInterval - 1) / restartInterval
    }

    // MARK: - Scans

    /// Adds what a scan has.
    ///
    /// - Returns: whether libjpeg would read the same: the scan is whole, and has nothing else. Not if it adds bits to
    ///   coefficients other than the means: how many bits it has depends on all of them.
    mutating func read(_ scan: ProgressiveScan, _ segments: CodingSegments, _ data: EntropyData) -> Bool {
        for component in scan.components {
            let start = 64 * component.index
            if scan.first > 0 && missingBits[start] < 0 { return false }
            for index in scan.first...scan.last {
                let before = missingBits[start + index]
                guard before < 0 ? scan.bitsBefore == nil : scan.bitsBefore == before && before > 0 else {
                    return false
                }
                missingBits[start + index] = scan.missingBits
            }
        }
        let (layout, interval) = (layout(of: scan), segments.restartInterval)
        if scan.first == 0 {
            return scan.bitsBefore == nil
                ? readMeans(scan, segments, data, layout, interval)
                : addBitToMeans(scan, data, layout, interval)
        }
        guard scan.bitsBefore == nil, let specification = segments.ac[scan.components[0].ac],
            let table = HuffmanTable(specification)
        else { return false }
        return readBand(scan, table, data, layout, interval)
    }

    /// Reads the first bits of all means (annex G.1.2.1).
    private mutating func readMeans(
        _ scan: ProgressiveScan,
        _ segments: CodingSegments,
        _ data: EntropyData,
        _ layout: Layout,
        _ restartInterval: Int
    ) -> Bool {
        var tables: [HuffmanTable] = []
        for component in scan.components {
            guard let table = segments.dc[component.dc].flatMap(HuffmanTable.init) else { return false }
            tables.append(table)
        }
        let (entries, codes) = (tables.flatMap(HuffmanLookups.differences), tables.flatMap(\.symbols))
        let (differences, symbols, bytes, blocks) = (entries.span, codes.span, data.bytes.span, layout.blocks)
        var target = values.mutableSpan
        var (unit, column, row) = (0, 0, 0)
        for interval in data.intervals {
            let end = restartInterval > 0 ? min(layout.units, unit + restartInterval) : layout.units
            var bits = CoefficientBits(at: interval.lowerBound)
            var (one, two, three) = (0, 0, 0)
            while unit < end {
                for index in blocks.indices {
                    let block = blocks[index]
                    if bits.position > interval.upperBound &+ 8 { return false }
                    bits.refill(bytes)
                    let lookup = block.component &* HuffmanTable.size &+ bits.index
                    var mean = block.component == 0 ? one : block.component == 1 ? two : three
                    let difference = differences[lookup]
                    if difference != 0 {
                        bits.drop(Int(difference & 15))
                        mean &+= Int(Int16(bitPattern: difference) >> 4)
                    } else {
                        var symbol = symbols[lookup]
                        if symbol == 0 { symbol = tables[block.component].longCodes.entry(for: bits.longestCode) }
                        if symbol == 0 { return false }
                        bits.drop(Int(symbol >> 8))
                        mean &+= bits.readValue(Int(symbol & 15))
                    }
                    switch block.component {
                    case 0: one = mean
                    case 1: two = mean
                    default: three = mean
                    }
                    // libjpeg keeps 16 bits of each coefficient.
                    let value = mean &<< scan.missingBits
                    if value != Int(Int16(truncatingIfNeeded: value)) { return false }
                    let place = block.start &+ column &* block.nextUnit &+ row &* block.nextRow
                    target[place] = Int16(truncatingIfNeeded: value)
                }
                unit &+= 1
                column &+= 1
                if column == layout.unitsAcross { (column, row) = (0, row &+ 1) }
            }
            // Less than a byte of padding.
            if (bits.consumed + 7) / 8 != interval.upperBound { return false }
        }
        return unit == layout.units
    }

    /// Adds the next bit to all means (annex G.1.2.1).
    private mutating func addBitToMeans(
        _ scan: ProgressiveScan,
        _ data: EntropyData,
        _ layout: Layout,
        _ restartInterval: Int
    ) -> Bool {
        let (bytes, blocks) = (data.bytes.span, layout.blocks)
        var target = values.mutableSpan
        var (unit, column, row) = (0, 0, 0)
        for interval in data.intervals {
            let end = restartInterval > 0 ? min(layout.units, unit + restartInterval) : layout.units
            var bits = CoefficientBits(at: interval.lowerBound)
            while unit < end {
                for index in blocks.indices {
                    let block = blocks[index]
                    if bits.position > interval.upperBound &+ 8 { return false }
                    bits.refill(bytes)
                    let bit = Int16(truncatingIfNeeded: bits.readBits(1) &<< scan.missingBits)
                    target[block.start &+ column &* block.nextUnit &+ row &* block.nextRow] |= bit
                }
                unit &+= 1
                column &+= 1
                if column == layout.unitsAcross { (column, row) = (0, row &+ 1) }
            }
            if (bits.consumed + 7) / 8 != interval.upperBound { return false }
        }
        return unit == layout.units
    }

    /// Reads the next coefficient of a band.
    ///
    /// - Returns: the number of zeros before it, and its value; ``HuffmanLookups/endOfBlock`` and more for the end of a
    ///   run of blocks, by the number of bits that its length has; -1 if there is no such code.
    @inline(__always) private static func coefficient(
        _ bits: inout CoefficientBits,
        _ lookups: borrowing Span<UInt32>,
        _ symbols: borrowing Span<UInt32>,
        _ table: borrowing HuffmanTable
    ) -> (run: Int, value: Int) {
        let entry = lookups[bits.index]
        if entry != 0 {
            bits.drop(Int(entry & 255))
            return (Int((entry >> 8) & 255), Int(Int32(bitPattern: entry) >> 16))
        }
        var symbol = symbols[bits.index]
        if symbol == 0 { symbol = table.longCodes.entry(for: bits.longestCode) }
        if symbol == 0 { return (-1, 0) }
        bits.drop(Int(symbol >> 8))
        let (run, size) = (Int((symbol >> 4) & 15), Int(symbol & 15))
        let isEnd = size == 0 && run < 15
        return (isEnd ? run &+ Int(HuffmanLookups.endOfBlock) : run, bits.readValue(size))
    }

    /// Reads the first bits of a band of coefficients of one component (annex G.1.2.2), and keeps the lowest ones.
    private mutating func readBand(
        _ scan: ProgressiveScan,
        _ table: HuffmanTable,
        _ data: EntropyData,
        _ layout: Layout,
        _ restartInterval: Int
    ) -> Bool {
        let entries = HuffmanLookups.coefficients(table)
        let (lookups, symbols, bytes) = (entries.span, table.symbols.span, data.bytes.span)
        let (across, first, keepsDetails) = (layout.unitsAcross, layout.blocks[0], perBlock == 4)
        var target = values.mutableSpan
        var block = 0
        for interval in data.intervals {
            let end = restartInterval > 0 ? min(layout.units, block + restartInterval) : layout.units
            var bits = CoefficientBits(at: interval.lowerBound)
            var row = block / across
            var column = block - row * across
            while block < end {
                if bits.position > interval.upperBound &+ 8 { return false }
                let place = first.start &+ column &* first.nextUnit &+ row &* first.nextRow
                // Blocks that end here: this one, and others that have no coefficient.
                var ended = 1
                var next = scan.first
                while next <= scan.last {
                    bits.refill(bytes)
                    let (run, coefficient) = Self.coefficient(&bits, lookups, symbols, table)
                    if run < 0 { return false }
                    if run >= Int(HuffmanLookups.endOfBlock) {
                        let size = run &- Int(HuffmanLookups.endOfBlock)
                        ended = 1 &<< size &+ bits.readBits(size)
                        break
                    }
                    next &+= run
                    if next > scan.last { return false }
                    let value = coefficient &<< scan.missingBits
                    if value != Int(Int16(truncatingIfNeeded: value)) { return false }
                    switch next {
                    case 1 where keepsDetails: target[place &+ 1] = Int16(truncatingIfNeeded: value)
                    case 2 where keepsDetails: target[place &+ 2] = Int16(truncatingIfNeeded: value)
                    case 4 where keepsDetails: target[place &+ 3] = Int16(truncatingIfNeeded: value)
                    default: break
                    }
                    next &+= 1
                }
                block &+= ended
                column &+= ended
                if column >= across {
                    row &+= column / across
                    column %= across
                }
            }
            // Blocks do not end behind a restart marker.
            if block != end || (bits.consumed + 7) / 8 != interval.upperBound { return false }
        }
        return block == layout.units
    }
}
