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
        current.writeStaticString("*")
        current.writeString(String(command.arguments.count))
        current.writeStaticString("\r\n")
        for argument in command.arguments { encode(argument) }
    }

    private mutating func encode(_ argument: RedisArgument) {
        current.writeStaticString("$")
        current.writeString(String(argument.count))
        current.writeStaticString("\r\n")
        switch argument {
        case .string(let text):
            current.writeString(text)
        case .buffer(let buffer) where buffer.readableBytes <= Self.copyLimit:
            current.writeImmutableBuffer(buffer)
        case .buffer(let buffer):
            parts.append(current)
            parts.append(buffer)
            current = ByteBuffer()
        }
        current.writeStaticString("\r\n")
    }

    /// Returns the buffers to write, in order.
    mutating func finish() -> [ByteBuffer] {
        if current.readableBytes > 0 { parts.append(current) }
        defer { parts = [] }
        return parts
    }
}
