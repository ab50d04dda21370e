/// Somebody's interest in a piece of work. All of it can be called at any time and from any thread, also after the end,
/// where it changes nothing. Letting go of it does not leave: call `cancel`.
struct WorkSubscription: Sendable {
    let node: any WorkSubscribable
    let id: Int
    /// For who waits for an end that does not come any more.
    var onCancel: @Sendable () -> Void = {}

    /// Leaves. The work ends with its last subscriber. No event begins to be delivered after this; one that is being
    /// delivered by another thread may still be.
    func cancel() {
        node.leave(id)
        onCancel()
    }

    /// The work takes the highest priority of its subscribers, and everything that it depends on does the same.
    func setPriority(_ priority: WorkPriority) { node.setPriority(priority, revision: nil, of: id) }

    /// Changes the priority unless a change with a higher revision has come before.
    func setPriority(_ priority: WorkPriority, revision: UInt64) {
        node.setPriority(priority, revision: revision, of: id)
    }

    /// Whether somebody who came earlier waits for the same work, or did so at its end.
    var wasCoalesced: Bool { node.wasCoalesced(id) }
}
