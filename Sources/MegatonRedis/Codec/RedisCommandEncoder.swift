import NIOCore

/// Encodes commands as RESP arrays of bulk strings.
///
/// Small arguments are gathered in one buffer. A large one keeps its own buffer and is written to the socket separately
/// (`writev`), so that image bytes are never copied.
struct RedisCommandEncoder {
    /// Arguments above this size, in bytes, are not copied. Below it, a copy is cheaper than another element of the
    /// iovec.
    static let copyLimit = 8 * 1024

    private(set) var parts: [ByteBuffer] = []
    private var current: ByteBuffer

    init(allocator: ByteBufferAllocator) {
        current = allocator.buffer(capacity: 512)
    }

    mutating func encode(_ command: RedisCommand) {
        writeHeader("*", command.arguments.count)
        for argument in command.arguments { encode(argument) }
    }

    private mutating func encode(_ argument: RedisArgument) {
        switch argument {
        case .string(let text):
            encode(text)
            return
        case .buffer(let buffer) where buffer.readableBytes <= Self.copyLimit:
            writeHeader("$", buffer.readableBytes)
            current.writeImmutableBuffer(buffer)
        case .buffer(let buffer):
            writeHeader("$", buffer.readableBytes)
            parts.append(current)
            parts.append(buffer)
            current = ByteBuffer()
        }
        current.writeBytes(Self.lineEnd)
    }

    /// Writes a text in one step: a claim has thirty of them.
    private mutating func encode(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            _ = current.writeWithUnsafeMutableBytes(
                minimumWritableBytes: Self.longestHeader + bytes.count + Self.lineEnd.count
            ) { target in
                let start = Self.write("$", bytes.count, to: target)
                let end = start + bytes.count
                target[start...].copyBytes(from: bytes)
                target[end...].copyBytes(from: Self.lineEnd)
                return end + Self.lineEnd.count
            }
        }
    }

    private static let lineEnd = Array("\r\n".utf8)
    /// Bytes of a type, a number and a line end.
    private static let longestHeader = 1 + 20 + 2

    private mutating func writeHeader(_ type: Unicode.Scalar, _ number: Int) {
        current.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.longestHeader) { target in
            Self.write(type, number, to: target)
        }
    }

    /// Writes the type of an element, its length and a line end.
    ///
    /// - Parameter number: not negative.
    /// - Returns: the number of bytes.
    private static func write(_ type: Unicode.Scalar, _ number: Int, to target: UnsafeMutableRawBufferPointer) -> Int {
        target[0] = UInt8(ascii: type)
        var (digits, rest) = (1, number)
        while rest >= 10 { (digits, rest) = (digits + 1, rest / 10) }
        rest = number
        for position in stride(from: digits, through: 1, by: -1) {
            target[position] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
        target[digits + 1] = UInt8(ascii: "\r")
        target[digits + 2] = UInt8(ascii: "\n")
        return digits + 3
    }

    /// Returns the buffers to write, in order.
    mutating func finish() -> [ByteBuffer] {
        if current.readableBytes > 0 { parts.append(current) }
        defer { parts = [] }
        return parts
    }
}
