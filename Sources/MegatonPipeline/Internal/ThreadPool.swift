internal import Foundation
import Synchronization

/// A fixed number of own threads for work that blocks or computes, so that Swift's cooperative pool never does.
///
/// The queue is bounded by its callers: each waits for its own piece of work.
///
/// `Sendable` without checking: what changes (`queue`, `isStopped`) is touched only with the condition locked.
public final class ThreadPool: @unchecked Sendable {
    private let condition = NSCondition()
    private var queue: [(id: Int, work: @Sendable (_ isCancelled: Bool) -> Void)] = []
    /// What is before it has been taken.
    private var head = 0
    private var nextID = 0
    private var isStopped = false

    /// - Parameters:
    ///   - name: of the threads, in debuggers and `top`, where 15 characters with the number are shown.
    ///   - count: how many threads.
    ///   - stackSize: bytes. 1 MiB is enough for our own code; codecs want more.
    ///   - onThreadExit: called on each thread as its last act.
    public init(
        name: String,
        count: Int,
        stackSize: Int = 1 << 20,
        onThreadExit: @escaping @Sendable () -> Void = {}
    ) {
        precondition(count > 0, "a pool needs a thread")
        for index in 0..<count {
            // The threads hold the pool until `stop`, which its owner calls when it goes.
            let thread = Thread(name: "\(name)-\(index)", stackSize: stackSize) { [self] in
                while let work = next() { work(false) }
                onThreadExit()
            }
            thread.start()
        }
    }

    /// Lets the threads end once the queue is empty.
    public func stop() {
        condition.lock()
        isStopped = true
        condition.broadcast()
        condition.unlock()
    }

    /// Runs work on one of the threads. Cancelled before it started, it never starts.
    ///
    /// - Throws: what the work throws, or `CancellationError`.
    public func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        let id = takeID()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                enqueue(id) { isCancelled in
                    continuation.resume(with: isCancelled ? .failure(CancellationError()) : Result { try work() })
                }
            }
        } onCancel: {
            remove(id)?(true)
        }
    }

    private func takeID() -> Int {
        condition.lock()
        defer { condition.unlock() }
        nextID += 1
        return nextID
    }

    private func enqueue(_ id: Int, _ work: @escaping @Sendable (Bool) -> Void) {
        condition.lock()
        if isStopped || Task.isCancelled {
            condition.unlock()
            work(true)
            return
        }
        queue.append((id, work))
        condition.signal()
        condition.unlock()
    }

    private func remove(_ id: Int) -> (@Sendable (Bool) -> Void)? {
        condition.lock()
        defer { condition.unlock() }
        guard let index = queue[head...].firstIndex(where: { $0.id == id }) else { return nil }
        return queue.remove(at: index).work
    }

    private func next() -> (@Sendable (Bool) -> Void)? {
        condition.lock()
        defer { condition.unlock() }
        while head == queue.count {
            queue.removeAll(keepingCapacity: true)
            head = 0
            if isStopped { return nil }
            condition.wait()
        }
        let work = queue[head].work
        // What it captured (a whole image, say) must not live on in a queue that never runs empty.
        queue[head].work = { _ in }
        head += 1
        if head >= 64, head * 2 > queue.count {
            queue.removeFirst(head)
            head = 0
        }
        return work
    }
}
