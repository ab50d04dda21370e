internal import CHiredis
import NIOCore

/// What hiredis' reader builds: a tree of these, retained once by the reader.
final class ReplyNode {
    private(set) var scalar: RedisValue
    private var children: [ReplyNode] = []
    private let isArray: Bool

    init(_ scalar: RedisValue) {
        self.scalar = scalar
        isArray = false
    }

    init(arrayOf count: Int) {
        scalar = .null
        isArray = true
        // Not reserved beyond a page: the count is only announced, nothing of it has arrived.
        children.reserveCapacity(min(count, 512))
    }

    var value: RedisValue { isArray ? .array(children.map(\.value)) : scalar }

    func append(_ child: ReplyNode) { children.append(child) }

    /// The five callbacks. The element count is an `int` in hiredis 0.14 and a `size_t` since 1.0: `Int(count)` serves
    /// both.
    static func functions() -> redisReplyObjectFunctions {
        var functions = redisReplyObjectFunctions()
        functions.createString = { task, bytes, length in
            guard let task, let bytes else { return nil }
            let raw = UnsafeRawBufferPointer(start: bytes, count: length)
            let value: RedisValue =
                switch task.pointee.type {
                case REDIS_REPLY_STATUS: .status(String(decoding: raw, as: UTF8.self))
                case REDIS_REPLY_ERROR: .error(String(decoding: raw, as: UTF8.self))
                default: .bulk(ByteBuffer(bytes: raw))
                }
            return ReplyNode.attach(ReplyNode(value), to: task)
        }
        functions.createArray = { task, count in
            guard let task else { return nil }
            // What the arrays of the reply may still announce: see `RedisReplyReader`.
            guard let left = task.pointee.privdata?.assumingMemoryBound(to: Int.self) else { return nil }
            // NULL makes the reader fail with "out of memory": nothing was allocated for what was only announced.
            guard Int(count) <= left.pointee else { return nil }
            left.pointee -= Int(count)
            return ReplyNode.attach(ReplyNode(arrayOf: Int(count)), to: task)
        }
        functions.createInteger = { task, number in
            task.flatMap { ReplyNode.attach(ReplyNode(.integer(Int(number))), to: $0) }
        }
        functions.createNil = { task in
            task.flatMap { ReplyNode.attach(ReplyNode(.null), to: $0) }
        }
        functions.freeObject = { object in
            guard let object else { return }
            Unmanaged<ReplyNode>.fromOpaque(object).release()
        }
        return functions
    }

    /// The root is handed to the reader with one retain; a child belongs to its parent, and the reader only holds its
    /// address while the parent lives.
    private static func attach(
        _ node: ReplyNode,
        to task: UnsafePointer<redisReadTask>
    ) -> UnsafeMutableRawPointer? {
        guard let parent = task.pointee.parent?.pointee.obj else {
            return Unmanaged.passRetained(node).toOpaque()
        }
        Unmanaged<ReplyNode>.fromOpaque(parent).takeUnretainedValue().append(node)
        return Unmanaged.passUnretained(node).toOpaque()
    }
}
