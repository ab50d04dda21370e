internal import CHiredis
import NIOCore

/// A node of the tree that hiredis' reader builds; the reader retains the root.
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
        // Reserve at most a page: the count is only announced, and no element has arrived.
        children.reserveCapacity(min(count, 512))
    }

    var value: RedisValue { isArray ? .array(children.map(\.value)) : scalar }

    func append(_ child: ReplyNode) { children.append(child) }

    /// The five callbacks of the reader. The element count is an `int` in hiredis 0.14 and a `size_t` since 1.0;
    /// `Int(count)` works for both.
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
            // Elements that arrays of the reply may still announce: see `RedisReplyReader`.
            guard let left = task.pointee.privdata?.assumingMemoryBound(to: Int.self) else { return nil }
            // NULL makes the reader fail with "out of memory", before anything is allocated for announced elements.
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

    /// The reader gets the root with one retain. A child is retained by its parent; the reader only keeps its address
    /// while the parent lives.
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
