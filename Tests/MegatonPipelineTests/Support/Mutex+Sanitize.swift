#if MEGATON_SANITIZE
    internal import Foundation

    /// Replaces `Synchronization.Mutex` in sanitizer builds. On Linux that type is a futex, which ThreadSanitizer does
    /// not see, so that it reports every access to the protected value as a race. A module's own type takes precedence
    /// over an imported one, so each module that uses `Mutex` has a copy of this file.
    ///
    /// `@unchecked Sendable`: the value is accessed with the lock held only.
    final class Mutex<Value>: @unchecked Sendable {
        private let lock = NSLock()
        private var value: Value

        init(_ value: sending Value) { self.value = value }

        func withLock<Result, Failure: Error>(
            _ body: (inout Value) throws(Failure) -> sending Result
        ) throws(Failure) -> sending Result {
            lock.lock()
            defer { lock.unlock() }
            return try body(&value)
        }
    }
#endif
