internal import CHiredis
import NIOCore

/// hiredis' reply reader, which creates our own values: bytes are copied once, from the reader's buffer to a
/// `ByteBuffer`.
///
/// Not thread-safe; it is confined to its connection's event loop.
///
/// This class adds limits that hiredis lacks: hiredis accepts a bulk string of any announced length and buffers without
/// end, allocates memory for any announced element count, and moves its whole buffer for each KiB consumed if it is fed
/// much at once (hiredis issue 656). Limits and small feeds solve all three.
final class RedisReplyReader {
    /// Upper limits of a reply.
    struct Limits {
        /// Bytes of one reply, as received from the connection.
        var bytes = 64 * 1024 * 1024 + 64 * 1024
        /// Elements of one reply, including those of nested arrays.
        var elements = 1_048_576
    }

    /// Bytes per feed. After each KiB consumed, hiredis moves the rest of its buffer to the front: 16 MB fed at once
    /// took 2.6 s, in pieces of 64 KiB 0.1 s.
    static let feedSize = 64 * 1024
    /// An idle reader that has held more bytes is replaced, because hiredis keeps the buffer of its largest reply.
    private static let idleBufferLimit = 1024 * 1024

    private let limits: Limits
    private var reader: UnsafeMutablePointer<redisReader>
    private let functions: UnsafeMutablePointer<redisReplyObjectFunctions>
    /// Elements that the current reply may still announce. The reader's callbacks find it through `privdata`.
    private let elementsLeft: UnsafeMutablePointer<Int>
    /// Bytes received of the current reply. hiredis' own count does not help: it releases bytes once they are an
    /// element.
    private var replyBytes = 0
    /// The most bytes that the reader has held since its creation: an estimate of the size of its buffer.
    private var peakBytes = 0

    init(limits: Limits = Limits()) {
        self.limits = limits
        functions = .allocate(capacity: 1)
        functions.initialize(to: ReplyNode.functions())
        elementsLeft = .allocate(capacity: 1)
        elementsLeft.initialize(to: limits.elements)
        reader = Self.makeReader(functions, elementsLeft: elementsLeft)
    }

    deinit {
        redisReaderFree(reader)
        functions.deinitialize(count: 1)
        functions.deallocate()
        elementsLeft.deallocate()
    }

    private static func makeReader(
        _ functions: UnsafeMutablePointer<redisReplyObjectFunctions>,
        elementsLeft: UnsafeMutablePointer<Int>
    ) -> UnsafeMutablePointer<redisReader> {
        guard let reader = redisReaderCreateWithFunctions(functions) else {
            preconditionFailure("out of memory for a reply reader")
        }
        reader.pointee.privdata = UnsafeMutableRawPointer(elementsLeft)
        return reader
    }

    /// Reads bytes of the stream, and returns the replies that became complete.
    ///
    /// - Throws: `RedisError` with `.protocolError`. The reader is unusable afterwards, and so is its connection.
    func read(_ bytes: inout ByteBuffer) throws(RedisError) -> [RedisValue] {
        var replies: [RedisValue] = []
        while bytes.readableBytes > 0 {
            let length = min(bytes.readableBytes, Self.feedSize)
            _ = bytes.readWithUnsafeReadableBytes { pointer in
                redisReaderFeed(reader, pointer.baseAddress, length)
                return length
            }
            peakBytes = max(peakBytes, Int(reader.pointee.len))
            replyBytes += length
            while let reply = try nextReply() {
                replies.append(reply)
                elementsLeft.pointee = limits.elements
                replyBytes = Int(reader.pointee.len) - Int(reader.pointee.pos)
            }
            if replyBytes > limits.bytes {
                throw RedisError(
                    .protocolError,
                    "A reply of Redis is larger than \(limits.bytes) bytes; the connection is closed."
                )
            }
        }
        replaceIfLarge()
        return replies
    }

    private func nextReply() throws(RedisError) -> RedisValue? {
        var object: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &object) == 0 else {
            let text = withUnsafeBytes(of: reader.pointee.errstr) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            throw RedisError(.protocolError, "A reply of Redis is not RESP2 or exceeds the limits: \(text)")
        }
        guard let object else { return nil }
        return Unmanaged<ReplyNode>.fromOpaque(object).takeRetainedValue().value
    }

    private func replaceIfLarge() {
        guard peakBytes > Self.idleBufferLimit, reader.pointee.pos == reader.pointee.len, reader.pointee.ridx == -1
        else { return }
        redisReaderFree(reader)
        reader = Self.makeReader(functions, elementsLeft: elementsLeft)
        peakBytes = 0
    }
}
