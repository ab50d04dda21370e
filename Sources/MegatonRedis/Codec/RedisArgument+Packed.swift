internal import NIOCore

extension RedisArgument {
    /// One argument in the place of many: a MessagePack array of strings, which a script reads with `cmsgpack.unpack`.
    ///
    /// Redis reads at most 16 KiB of a command before it serves its other clients, unless an argument has 32 KiB or
    /// more: that is read whole (`PROTO_IOBUF_LEN` and `PROTO_MBULK_BIG_ARG` in its server.h). Beside a thousand busy
    /// clients, a command of thousands of small arguments arrives in a tenth of a second.
    ///
    /// Source: the MessagePack specification, formats array and str.
    package static func packed(_ arguments: [RedisArgument]) -> RedisArgument {
        // At most five bytes before each text.
        var buffer = ByteBufferAllocator().buffer(capacity: arguments.reduce(5) { $0 + $1.count + 5 })
        buffer.writeInteger(UInt8(0xdd))
        buffer.writeInteger(UInt32(arguments.count))
        for argument in arguments {
            switch argument.count {
            case let count where count < 32: buffer.writeInteger(0xa0 | UInt8(count))
            case let count where count < 256:
                buffer.writeInteger(UInt8(0xd9))
                buffer.writeInteger(UInt8(count))
            case let count:
                buffer.writeInteger(UInt8(0xdb))
                buffer.writeInteger(UInt32(count))
            }
            switch argument {
            case .string(let text): buffer.writeString(text)
            case .buffer(let bytes): buffer.writeImmutableBuffer(bytes)
            }
        }
        return .buffer(buffer)
    }
}
