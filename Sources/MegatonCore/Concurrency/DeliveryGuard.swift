internal import Foundation

/// Lets calls of a load's closures pass until the load is over, and none that would begin later: the guarantee of
/// ``DataLoading`` for `cancel()`.
///
/// A check before each call is not enough, because `cancel()` may return between the check and the call. The lock is
/// therefore held during a call, and cancelling from another thread waits for the end of that call. The lock is
/// recursive, because a closure may cancel its own load. A caller of `cancel()` must not hold a lock that the load's
/// closures acquire.
///
/// `@unchecked Sendable`: `closed` is used only with the lock held.
package final class DeliveryGuard: @unchecked Sendable {
    private let lock = NSRecursiveLock()
    private var closed = false

    package init() {}

    package var isClosed: Bool { lock.withLock { closed } }

    /// Closes the gate. No call begins after this has returned.
    package func close() { lock.withLock { closed = true } }

    package func call(_ body: () -> Void) {
        lock.withLock { if !closed { body() } }
    }

    /// Makes the last call and closes the gate.
    package func end(_ body: () -> Void) {
        lock.withLock {
            if closed { return }
            closed = true
            body()
        }
    }
}
