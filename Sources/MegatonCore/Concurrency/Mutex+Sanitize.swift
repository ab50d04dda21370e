#if MEGATON_SANITIZE
    internal import Foundation

    /// Replaces `Synchronization.Mutex` under a sanitizer. On Linux that one is a futex, which ThreadSanitizer does not
    /// see: it would report every access to the protected value as a race. A type of the module shadows an imported
    /// one, so each module that uses `Mutex` has this file.
    ///
    /// `@unchecked Sendable`: the value is accessed only with the lock held.
    package final class Mutex<Value>: @unchecked Sendable {
        private let lock = NSLock()
        private var value: Value

        package init(_ value: sending Value) { self.value = value }

        package func withLock<Result, Failure: Error>(
            _ body: (inout Value) throws(Failure) -> sending Result
        ) throws(Failure) -> sending Result {
            lock.lock()
            defer { lock.unlock() }
            return try body(&value)
        }
    }
#endif
