/// Something under way that can be told to stop.
public protocol Cancellable: Sendable {
    /// Stops it. May be called from any thread, and more than once.
    func cancel()
}
