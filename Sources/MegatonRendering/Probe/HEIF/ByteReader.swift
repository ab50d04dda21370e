/// Reads big-endian numbers from a range of a file, and never beyond the end of the range.
struct ByteReader {
    let bytes: UnsafeRawBufferPointer
    private(set) var index: Int
    let end: Int

    /// - Parameter range: A range within the bytes.
    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) {
        self.bytes = bytes
        index = range.lowerBound
        end = range.upperBound
    }

    var remaining: Int { end - index }
    var rest: Range<Int> { index..<end }

    /// Reads an unsigned number of 0 to 8 bytes.
    ///
    /// - Throws: `.corruptImage` if the range ends before it, or if it does not fit in `Int`.
    mutating func number(_ count: Int) throws(ImageError) -> Int {
        guard count <= remaining else { throw Self.cut }
        var value: UInt64 = 0
        for offset in 0..<count { value = value << 8 | UInt64(bytes[index + offset]) }
        guard let number = Int(exactly: value) else {
            throw ImageError(.corruptImage, "a size or an offset in the header is beyond counting.")
        }
        index += count
        return number
    }

    mutating func skip(_ count: Int) throws(ImageError) {
        guard count <= remaining else { throw Self.cut }
        index += count
    }

    /// Reads a text up to its terminating zero or the end of the range, and returns its range.
    mutating func text() -> Range<Int> {
        let start = index
        while index < end, bytes[index] != 0 { index += 1 }
        let text = start..<index
        if index < end { index += 1 }
        return text
    }

    /// Consumes the next `count` bytes and returns their range.
    mutating func part(_ count: Int) throws(ImageError) -> Range<Int> {
        let start = index
        try skip(count)
        return start..<index
    }

    private static var cut: ImageError {
        ImageError(.corruptImage, "a box of the header ends in the middle of a field.")
    }
}

/// A box of an ISO base media file (ISO/IEC 14496-12 section 4.2).
struct Box {
    let type: FourCC
    /// The bytes after its header.
    let content: Range<Int>
}

/// A four-character type code.
struct FourCC: Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
    let code: UInt32

    init(_ code: Int) { self.code = UInt32(truncatingIfNeeded: code) }
    init(stringLiteral text: StaticString) {
        code = text.withUTF8Buffer { $0.reduce(0) { $0 << 8 | UInt32($1) } }
    }

    /// Shows characters other than printable ASCII as dots, because the code comes from untrusted input.
    var description: String {
        String(
            decoding: [24, 16, 8, 0].map { shift in
                let byte = UInt8(truncatingIfNeeded: code >> UInt32(shift))
                return (0x20...0x7E).contains(byte) ? byte : 0x2E
            },
            as: UTF8.self
        )
    }
}

extension ByteReader {
    /// Reads the next box and moves behind it.
    ///
    /// - Returns: nil at the end of the range.
    /// - Throws: `.corruptImage` if the box is shorter than its own header, or longer than the range.
    mutating func box() throws(ImageError) -> Box? {
        if remaining == 0 { return nil }
        let start = index
        var size = try number(4)
        let type = FourCC(try number(4))
        if size == 1 { size = try number(8) }
        // An extended type follows.
        if type == "uuid" { try skip(16) }
        let header = index - start
        guard size >= header else {
            throw ImageError(.corruptImage, "the box \(type) says that it has \(size) bytes.")
        }
        guard size - header <= remaining else {
            throw ImageError(
                .corruptImage,
                "the box \(type) says that it has \(size) bytes, and there are \(remaining + header): "
                    + "the file is cut short or damaged."
            )
        }
        return Box(type: type, content: try part(size - header))
    }
}
