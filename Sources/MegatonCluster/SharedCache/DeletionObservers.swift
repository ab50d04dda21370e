import MegatonPipeline
internal import MegatonRedis
import Synchronization

/// Handlers that are notified of deleted entries: those of pipelines with near caches of their own, as long as they
/// live.
final class DeletionObservers: Sendable {
    private struct State {
        var handlers: [Int: @Sendable (String?) -> Void] = [:]
        var lastID = 0
    }

    private struct Observation: Cancellable {
        // Weak, as it may outlive the lock that it observes.
        weak let observers: DeletionObservers?
        let id: Int

        func cancel() { observers?.remove(id) }
    }

    private let state = Mutex(State())

    /// - Returns: a handle that ends the observation.
    func add(_ handler: @escaping @Sendable (String?) -> Void) -> any Cancellable {
        let id = state.withLock { state in
            state.lastID += 1
            state.handlers[state.lastID] = handler
            return state.lastID
        }
        return Observation(observers: self, id: id)
    }

    /// Notifies the handlers in the order of their registration, so that an observer behind a cache finds that cache up
    /// to date.
    ///
    /// - Parameter key: nil if any entry may have been deleted.
    func notify(_ key: String?) {
        let handlers = state.withLock { $0.handlers.sorted { $0.key < $1.key }.map(\.value) }
        for handler in handlers { handler(key) }
    }

    // The handler is released outside of the lock: its deinitialization may remove other handlers.
    private func remove(_ id: Int) { _ = state.withLock { $0.handlers.removeValue(forKey: id) } }
}

/// The observation of the deletions of a whole cache: the subscriptions at its servers end with it.
final class DeletionObservation: Cancellable {
    private let handle: any Cancellable
    private let subscriptions: Mutex<[ChannelSubscriptions]>

    init(handle: any Cancellable, subscriptions: [ChannelSubscriptions]) {
        self.handle = handle
        self.subscriptions = Mutex(subscriptions)
    }

    func cancel() {
        handle.cancel()
        // Only the first call ends anything.
        let ended = subscriptions.withLock { subscriptions in
            defer { subscriptions = [] }
            return subscriptions
        }
        for subscription in ended { subscription.unsubscribe(from: CacheKeys.deletions) }
    }
}
