internal import Foundation
import Synchronization

/// A fixed number of dedicated threads for work that blocks or computes, which must not occupy Swift's cooperative
/// pool.
///
/// The queue is bounded by its callers: each waits for its own unit of work.
///
/// `@unchecked Sendable`: mutable state (`queue`, `isStopped`) is accessed only with the condition locked.
package final class ThreadPool: @unchecked Sendable {
    private let condition = NSCondition()
    private var queue: [(id: Int, work: @Sendable (_ isCancelled: Bool) -> Void)] = []
    /// Index of the first unit of work that no thread has taken.
    private var head = 0
    private var nextID = 0
    private var isStopped = false

    /// - Parameters:
    ///   - name: prefix of the threads' names. Debuggers and `top` show 15 characters, including the number.
    ///   - count: number of threads.
    ///   - stackSize: bytes. 1 MiB is enough for code of this package; codecs need more.
    ///   - onThreadExit: called on each thread as its last act.
    package init(
        name: String,
        count: Int,
        stackSize: Int = 1 << 20,
        onThreadExit: @escaping @Sendable () -> Void = {}
    ) {
        precondition(count > 0, "a pool needs a thread")
        for index in 0..<count {
            // The threads retain the pool until `stop`, which the owner calls when it is deinitialized.
            KernelThread.start("\(name)-\(index)", stackSize: stackSize) { [self] in
                while let work = next() { work(false) }
                onThreadExit()
            }
        }
    }

    /// Ends the threads as soon as the queue is empty.
    package func stop() {
        condition.lock()
        isStopped = true
        condition.broadcast()
        condition.unlock()
    }

    /// Runs work on one of the threads. Work that is cancelled before it starts does not run.
    ///
    /// - Throws: the error of the work, or `CancellationError`.
    package func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await runUnlessAbandoned { _ in try work() }
    }

    /// As `run`, for work that may hang.
    ///
    /// - Parameter work: receives a closure that throws an error to the caller, which stops waiting. The thread goes on
    ///   with the work, whose result is dropped.
    package func runUnlessAbandoned<Value: Sendable>(
        _ work: @escaping @Sendable (_ abandon: @escaping @Sendable (any Error) -> Void) throws -> Value
    ) async throws -> Value {
        let id = takeID()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiting = Mutex<CheckedContinuation<Value, any Error>?>(continuation)
                let end = { @Sendable (result: Result<Value, any Error>) -> Void in
                    waiting.withLock { $0.take() }?.resume(with: result)
                }
                enqueue(id) { isCancelled in
                    if isCancelled { return end(.failure(CancellationError())) }
                    end(Result { try work { end(.failure($0)) } })
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
        // Captured values, such as a whole image, must not be retained by a queue that never runs empty.
        queue[head].work = { _ in }
        head += 1
        if head >= 64, head * 2 > queue.count {
            queue.removeFirst(head)
            head = 0
        }
        return work
    }
}
