#if MEGATON_SANITIZE
    internal import Foundation

    /// In the place of `Synchronization.Mutex` while a sanitizer looks on: on Linux that one is a futex, which
    /// ThreadSanitizer does not see, and every access to what it protects is reported as a race. A type of the module goes
    /// before an imported one, so that each module which says `Mutex` has this file.
    ///
    /// `@unchecked Sendable`: the value is touched with the lock held only.
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
