internal import Foundation

/// The entropy-coded data of a scan, without stuffed bytes and restart markers (ITU-T T.81 annex F.1.2.3 and E.1.4).
struct EntropyData {
    /// Bytes behind the data that may be read: more than the largest block has.
    static let padding = 512

    private(set) var bytes: [UInt8] = []
    /// The data between restart markers.
    private(set) var intervals: [Range<Int>] = []

    /// Reads a scan, and replaces the one before.
    ///
    /// - Parameters:
    ///   - start: offset of the data.
    ///   - count: number of intervals that it has.
    /// - Returns: offset of the marker behind the data; nil if there is none, or if the restart markers are in another
    ///   order.
    mutating func read(_ file: Data, from start: Int, intervals count: Int) -> Int? {
        let source = file.span
        let needed = source.count - start + Self.padding
        if bytes.count < needed { bytes = [UInt8](repeating: 0, count: needed) }
        var found: [Range<Int>] = []
        var target = bytes.mutableSpan
        var (index, copied, begin, end) = (start, start, 0, 0)
        while true {
            index = Self.nextMark(source, from: index)
            guard index + 1 < source.count else { return nil }
            let code = source[index + 1]
            let next = code == 0 ? index + 1 : index
            Self.copy(source, copied, next - copied, to: &target, at: end)
            end += next - copied
            index += 2
            copied = index
            if code == 0 { continue }
            found.append(begin..<end)
            begin = end
            guard (0xD0...0xD7).contains(code) else {
                // Markers that stand alone, and fill bytes: what comes behind them may be data that libjpeg warns of.
                if [0x01, 0xD8, 0xFF].contains(code) { return nil }
                break
            }
            // Restart markers are numbered from 0 to 7, again and again.
            guard found.count < count, Int(code) == 0xD0 + (found.count - 1) & 7 else { return nil }
        }
        for index in end..<(end + Self.padding) { target[index] = 0 }
        intervals = found
        return found.count == count ? index - 2 : nil
    }

    static let endOfImage: UInt8 = 0xD9

    @inline(__always) private static func copy(
        _ source: borrowing Span<UInt8>,
        _ from: Int,
        _ count: Int,
        to target: inout MutableSpan<UInt8>,
        at start: Int
    ) {
        // With these checks the compiler needs no others, and copies many bytes at a time.
        precondition(from >= 0 && count >= 0 && start >= 0)
        precondition(from <= source.count &- count && start <= target.count &- count)
        for index in 0..<count { target[start &+ index] = source[from &+ index] }
    }

    /// Frees the memory if there is more than this number of bytes.
    mutating func trim(to limit: Int) {
        if bytes.capacity > limit { bytes = [] }
        if intervals.capacity * MemoryLayout<Range<Int>>.stride > limit { intervals = [] }
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
