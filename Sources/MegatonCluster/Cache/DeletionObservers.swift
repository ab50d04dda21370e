import Synchronization

/// Who is told of entries that were deleted. As many as there are pipelines with caches of their own before this one.
final class DeletionObservers: Sendable {
    private let handlers = Mutex<[@Sendable (String?) -> Void]>([])

    func add(_ handler: @escaping @Sendable (String?) -> Void) { handlers.withLock { $0.append(handler) } }

    /// - Parameter key: nil where any may have been deleted.
    func tell(_ key: String?) {
        for handler in handlers.withLock({ $0 }) { handler(key) }
    }
}
