/// Reads big-endian numbers from a part of a file. Nothing beyond the part's end is touched.
struct ByteReader {
    let bytes: UnsafeRawBufferPointer
    private(set) var index: Int
    let end: Int

    /// - Parameter range: within the bytes.
    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) {
        self.bytes = bytes
        index = range.lowerBound
        end = range.upperBound
    }

    var remaining: Int { end - index }
    var rest: Range<Int> { index..<end }

    /// An unsigned number of 0 to 8 bytes.
    ///
    /// - Throws: `.corruptImage` if the part ends before it, or if it is beyond `Int`.
    mutating func number(_ count: Int) throws(ImagePipeline.Error) -> Int {
        guard count <= remaining else { throw Self.cut }
        var value: UInt64 = 0
        for offset in 0..<count { value = value << 8 | UInt64(bytes[index + offset]) }
        guard let number = Int(exactly: value) else {
            throw ImagePipeline.Error(.corruptImage, "a size or an offset in the header is beyond counting.")
        }
        index += count
        return number
    }

    mutating func skip(_ count: Int) throws(ImagePipeline.Error) {
        guard count <= remaining else { throw Self.cut }
        index += count
    }

    /// The range of a text that ends with a zero, or with the part.
    mutating func text() -> Range<Int> {
        let start = index
        while index < end, bytes[index] != 0 { index += 1 }
        let text = start..<index
        if index < end { index += 1 }
        return text
    }

    /// The next so many bytes as a part of their own.
    mutating func part(_ count: Int) throws(ImagePipeline.Error) -> Range<Int> {
        let start = index
        try skip(count)
        return start..<index
    }

    private static var cut: ImagePipeline.Error {
        ImagePipeline.Error(.corruptImage, "a box of the header ends in the middle of a field.")
    }
}

/// A box of ISO base media files (ISO/IEC 14496-12 section 4.2).
struct Box {
    let type: FourCC
    /// The bytes behind its header.
    let content: Range<Int>
}

/// A type of four characters.
struct FourCC: Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
    let code: UInt32

    init(_ code: Int) { self.code = UInt32(truncatingIfNeeded: code) }
    init(stringLiteral text: StaticString) {
        code = text.withUTF8Buffer { $0.reduce(0) { $0 << 8 | UInt32($1) } }
    }

    /// Characters that are not printable ASCII are shown as dots: the type is a stranger's.
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
    /// The next box within this part, which moves on to the one behind it.
    ///
    /// - Returns: nil at the part's end.
    /// - Throws: `.corruptImage` if the box is shorter than its own header, or longer than the part.
    mutating func box() throws(ImagePipeline.Error) -> Box? {
        if remaining == 0 { return nil }
        let start = index
        var size = try number(4)
        let type = FourCC(try number(4))
        if size == 1 { size = try number(8) }
        // An extended type.
        if type == "uuid" { try skip(16) }
        let header = index - start
        guard size >= header else {
            throw ImagePipeline.Error(.corruptImage, "the box \(type) says that it has \(size) bytes.")
        }
        guard size - header <= remaining else {
            throw ImagePipeline.Error(
                .corruptImage,
                "the box \(type) says that it has \(size) bytes, and there are \(remaining + header): "
                    + "the file is cut short or damaged."
            )
        }
        return Box(type: type, content: try part(size - header))
    }
}
