#if MEGATON_SANITIZE
    internal import Foundation

    /// Replaces `Synchronization.Mutex` in builds with a sanitizer: on Linux that type is a futex, which
    /// ThreadSanitizer does not see, so that every access to the protected value is reported as a race. A type of the
    /// module takes precedence over an imported one, so each module that uses `Mutex` needs this file.
    ///
    /// `@unchecked Sendable`: the value is only accessed with the lock held.
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
