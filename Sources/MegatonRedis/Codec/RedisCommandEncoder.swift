import NIOCore

/// Writes commands as RESP arrays of bulk strings.
///
/// Small arguments are gathered in one buffer; a large one stays the buffer that it was and goes to the socket by
/// itself (`writev`), so that image bytes are never copied.
struct RedisCommandEncoder {
    /// Above this an argument is not copied. Below, one copy is cheaper than one more element of the iovec.
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

    /// What is to be written, in order.
    mutating func finish() -> [ByteBuffer] {
        if current.readableBytes > 0 { parts.append(current) }
        defer { parts = [] }
        return parts
    }
}
