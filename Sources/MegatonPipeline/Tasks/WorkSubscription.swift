/// Subscription to a unit of work. Its methods can be called at any time and from any thread; after the end they have
/// no effect. Releasing it does not end the subscription: call `cancel`.
struct WorkSubscription: Sendable {
    let node: any WorkSubscribable
    let id: Int
    /// Called by `cancel`, for a caller that waits for a final event, which will not come.
    var onCancel: @Sendable () -> Void = {}

    /// Ends the subscription. The work ends with its last subscriber. No event is delivered to the observer after this,
    /// except one that another thread is just delivering.
    func cancel() {
        node.leave(id)
        onCancel()
    }

    /// Changes the priority. The work, and everything it depends on, has the highest priority of its subscribers.
    func setPriority(_ priority: WorkPriority) { node.setPriority(priority, revision: nil, of: id) }

    /// Changes the priority, unless a change with a higher revision was made before.
    func setPriority(_ priority: WorkPriority, revision: UInt64) {
        node.setPriority(priority, revision: revision, of: id)
    }

    /// Whether an earlier subscriber waits for the same work, or did so at its end.
    var wasCoalesced: Bool { node.wasCoalesced(id) }
}
