internal import Foundation
import Synchronization

/// Limit for bodies in memory: all bodies of one process that are not in files, including those in use after their
/// download.
package final class BodyMemory: Sendable {
    package static let process = BodyMemory(limit: 64 << 20)

    /// The limit, bytes.
    let limit: Int
    private let used = Mutex(0)

    init(limit: Int) { self.limit = limit }

    /// Bytes reserved.
    var bytesInUse: Int { used.withLock { $0 } }

    /// - Returns: false if too little is left. A body does not wait for memory: it goes to a file instead.
    func reserve(_ bytes: Int) -> Bool {
        used.withLock { used in
            guard used + bytes <= limit else { return false }
            used += bytes
            return true
        }
    }

    func release(_ bytes: Int) { used.withLock { $0 -= bytes } }
}

/// Memory for one body, which grows while the body arrives.
///
/// `@unchecked Sendable`: only the body that owns it changes it, and only until `data` ends that body.
final class BodyBlock: @unchecked Sendable {
    private var start: UnsafeMutableRawPointer
    private(set) var capacity: Int
    /// Nil if its memory is not counted.
    private let memory: BodyMemory?

    /// - Parameter memory: nil for a body that must be in memory because no file can be created.
    init?(capacity: Int, _ memory: BodyMemory?) {
        guard memory?.reserve(capacity) != false else { return nil }
        guard let start = malloc(max(1, capacity)) else {
            memory?.release(capacity)
            return nil
        }
        self.start = start
        self.capacity = capacity
        self.memory = memory
    }

    deinit {
        free(start)
        memory?.release(capacity)
    }

    /// Whether it counts toward the limit for bodies in memory.
    var isCounted: Bool { memory != nil }

    /// - Returns: false if there is not enough memory.
    func grow(to capacity: Int) -> Bool {
        let more = capacity - self.capacity
        if more <= 0 { return true }
        guard memory?.reserve(more) != false else { return false }
        guard let start = realloc(self.start, capacity) else {
            memory?.release(more)
            return false
        }
        self.start = start
        self.capacity = capacity
        return true
    }

    /// - Parameter offset: number of bytes written before. The result must fit into the capacity.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        if let source = bytes.baseAddress { memcpy(start + offset, source, bytes.count) }
    }

    func bytes(_ count: Int) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }

    /// The bytes without a copy. Nothing may be written afterwards.
    func data(_ count: Int) -> Data {
        // The closure retains the block until the last user of the bytes is gone.
        Data(bytesNoCopy: start, count: count, deallocator: .custom { [self] _, _ in withExtendedLifetime(self) {} })
    }
}
