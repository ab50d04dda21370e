internal import Foundation

/// Lets the calls of a load's closures through until the load is over, and none that would begin after that: what
/// ``DataLoading`` promises of `cancel()`.
///
/// To look and then to call is not enough, as `cancel()` may return in between. So the lock is held during a call, and
/// who cancels from another thread waits for the end of it; it is recursive, as one may also cancel from within a call.
/// Whoever cancels must not hold a lock that the load's closures take.
///
/// `Sendable` without checking: `closed` is touched only with the lock held.
final class CallGate: @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var closed = false

    var isClosed: Bool { lock.withLock { closed } }

    /// No call begins when this has returned.
    func close() { lock.withLock { closed = true } }

    func call(_ body: () -> Void) {
        lock.withLock { if !closed { body() } }
    }

    /// The last call.
    func end(_ body: () -> Void) {
        lock.withLock {
            if closed { return }
            closed = true
            body()
        }
    }
}
