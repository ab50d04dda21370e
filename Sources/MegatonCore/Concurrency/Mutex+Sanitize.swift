#if MEGATON_SANITIZE
    internal import Foundation

    /// Replaces `Synchronization.Mutex` in sanitizer builds. On Linux that type is a futex, which ThreadSanitizer does
    /// not see, so that it would report every access to the protected value as a race.
    ///
    /// A module's own declaration takes precedence over all imported ones, so each module that uses `Mutex` has an
    /// alias for this class. Without one the name is ambiguous in sanitizer builds.
    ///
    /// `@unchecked Sendable`: the value is accessed with the lock held only.
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
