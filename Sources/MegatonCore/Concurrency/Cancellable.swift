/// An operation in progress that can be cancelled.
public protocol Cancellable: Sendable {
    /// Cancels the operation. May be called from any thread, and more than once.
    func cancel()
}
