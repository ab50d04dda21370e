/// The entropy-coded data of a scan, without stuffed bytes and restart markers (ITU-T T.81 annex F.1.2.3 and E.1.4).
struct EntropyData {
    /// Bytes behind the data that may be read: more than the largest block has.
    static let padding = 512

    private(set) var bytes: [UInt8] = []
    /// The data between restart markers.
    private(set) var intervals: [Range<Int>] = []

    /// Reads a scan, and replaces the one before.
    ///
    /// - Parameter start: offset of the data.
    /// - Returns: whether the data ends with the end of the image, and its restart markers are in their order.
    mutating func read(_ file: [UInt8], from start: Int, withRestarts hasRestarts: Bool) -> Bool {
        bytes.removeAll(keepingCapacity: true)
        bytes.reserveCapacity(file.count - start + Self.padding)
        intervals.removeAll(keepingCapacity: true)
        var (index, copied, begin) = (start, start, 0)
        while true {
            index = Self.nextMark(file.span, from: index)
            guard index + 1 < file.count else { return false }
            let code = file[index + 1]
            if code == 0 {
                bytes.append(contentsOf: file[copied...index])
                index += 2
                copied = index
                continue
            }
            bytes.append(contentsOf: file[copied..<index])
            intervals.append(begin..<bytes.count)
            if code == 0xD9 { break }
            // Restart markers are numbered from 0 to 7, again and again.
            guard hasRestarts, Int(code) == 0xD0 + (intervals.count - 1) & 7 else { return false }
            index += 2
            copied = index
            begin = bytes.count
        }
        bytes.append(contentsOf: repeatElement(0, count: Self.padding))
        return true
    }

    /// Frees the memory if there is more than this number of bytes.
    mutating func trim(to limit: Int) {
        if bytes.capacity > limit { bytes = [] }
    }

    /// The offset of the next 0xFF, or the number of bytes.
    private static func nextMark(_ file: borrowing Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index <= file.count - 8 {
            let (word, inverse) = (file.word(at: index), ~file.word(at: index))
            // Whether a byte of the inverse is zero (Warren, Hacker's Delight, section 6-1).
            if (inverse &- 0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 != 0 { break }
            index += 8
        }
        while index < file.count && file[index] != 0xFF { index += 1 }
        return index
    }
}

extension Span<UInt8> {
    /// Eight bytes, the first of them in the highest bits.
    @inline(__always) func word(at index: Int) -> UInt64 {
        // With this check the compiler needs no others, and makes one load of eight.
        precondition(index >= 0 && index <= count &- 8)
        return UInt64(self[index]) << 56 | UInt64(self[index &+ 1]) << 48 | UInt64(self[index &+ 2]) << 40
            | UInt64(self[index &+ 3]) << 32 | UInt64(self[index &+ 4]) << 24 | UInt64(self[index &+ 5]) << 16
            | UInt64(self[index &+ 6]) << 8 | UInt64(self[index &+ 7])
    }
}
