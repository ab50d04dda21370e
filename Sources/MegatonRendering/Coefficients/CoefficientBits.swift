/// The next bits of entropy-coded data without stuffed bytes.
struct CoefficientBits {
    /// The bits, the next one in the highest place. Behind those that count are bits of the byte at ``position``, or
    /// zeros.
    private var buffer: UInt64 = 0
    /// Number of the bits that count.
    private var count = 0
    /// Offset of the byte behind those bits.
    private(set) var position: Int

    init(at position: Int) { self.position = position }

    /// Bits of a lookup.
    @inline(__always) var index: Int {
        Int(truncatingIfNeeded: buffer &>> UInt64(64 &- HuffmanTable.bits))
    }

    /// The bits of the longest code.
    @inline(__always) var longestCode: Int {
        Int(truncatingIfNeeded: buffer &>> UInt64(64 &- HuffmanTable.longestCode))
    }

    /// Offset of the next bit, in bits.
    var consumed: Int { position * 8 - count }

    /// Makes at least 56 bits available, without a branch: whole bytes are counted, and the rest of the last word is
    /// read again (Fabian Giesen, "Reading bits in far too many ways", variant 4).
    @inline(__always) mutating func refill(_ bytes: borrowing Span<UInt8>) {
        buffer |= bytes.word(at: position) &>> UInt64(truncatingIfNeeded: count)
        position &+= (63 &- count) &>> 3
        count |= 56
    }

    /// The index of a lookup, and a ``refill(_:)`` for the next one. It goes beside the lookup and does not delay it:
    /// the bits of the index are there already, as the longest code and its value leave 25 of the 56.
    @inline(__always) mutating func indexAndRefill(_ bytes: borrowing Span<UInt8>) -> Int {
        let index = index
        refill(bytes)
        return index
    }

    @inline(__always) mutating func drop(_ bits: Int) {
        buffer = buffer &<< UInt64(truncatingIfNeeded: bits)
        count &-= bits
    }

    /// The value behind a code whose symbol has its number of bits: at most 15.
    @inline(__always) mutating func readValue(_ size: Int) -> Int { HuffmanLookups.value(readBits(size), size) }

    /// A number of at most 15 bits, without a sign.
    @inline(__always) mutating func readBits(_ size: Int) -> Int {
        // A shift by 64 bits would be none.
        let bits = Int(truncatingIfNeeded: (buffer &>> 1) &>> UInt64(truncatingIfNeeded: 63 &- size))
        drop(size)
        return bits
    }
}
