import Synchronization

/// Unfinished work of one kind by key (single flight): a subscriber for a key that is under way shares that work.
///
/// Finished work is removed immediately; caches store results.
final class WorkPool<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Table {
        var nodes: [Key: (id: UInt64, node: WorkNode<Value>)] = [:]
        var lastID: UInt64 = 0
    }

    private let isCoalescingEnabled: Bool
    /// Acquired around a node's lock, never inside one.
    private let table = Mutex(Table())

    /// - Parameter isCoalescingEnabled: false for separate work for each subscriber.
    init(isCoalescingEnabled: Bool = true) { self.isCoalescingEnabled = isCoalescingEnabled }

    /// Number of units of work that can be joined.
    var count: Int { table.withLock { $0.nodes.count } }

    /// Whether work for the key is under way.
    func contains(_ key: Key) -> Bool { table.withLock { $0.nodes[key] != nil } }

    /// Number of subscribers of all units.
    var subscriberCount: Int {
        table.withLock { $0.nodes.values.map(\.node) }.reduce(0) { $0 + $1.subscriberCount }
    }

    /// Subscribes to the work for a key, and starts it if it is not under way.
    ///
    /// - Parameters:
    ///   - priority: of this subscriber; the work has the highest priority of all subscribers.
    ///   - job: work to start if this is the first subscriber.
    ///   - wantsProgress: whether the observer does anything with progress.
    ///   - willStart: called with the subscription before the work starts, so that a subscriber that has ended
    ///     meanwhile can cancel it in time.
    ///   - observer: called with all events from now on, possibly before this function returns: progress, preliminary
    ///     values, and one final event.
    /// - Returns: nil if the work has ended already.
    @discardableResult
    func subscribe(
        to key: Key,
        priority: WorkPriority = .normal,
        job: WorkJob<Value>,
        wantsProgress: Bool = true,
        willStart: (WorkSubscription) -> Void = { _ in },
        observer: @escaping WorkObserver<Value>
    ) -> WorkSubscription? {
        let share = share(key, priority, observer, wantsProgress: wantsProgress)
        share.node.act(share.actions)
        willStart(WorkSubscription(node: share.node, id: share.id))
        if share.isNew { job.start(WorkContext(node: share.node)) }
        return share.node.contains(share.id) ? WorkSubscription(node: share.node, id: share.id) : nil
    }

    /// Subscribes to the work and waits for its end. Cancelling the calling task ends the subscription.
    ///
    /// - Parameters:
    ///   - willStart: called with the subscription, whose priority can be changed, before the work starts.
    ///   - observer: called with the events before the final one; nil if they are not needed.
    func outcome(
        for key: Key,
        priority: WorkPriority = .normal,
        job: WorkJob<Value>,
        willStart: (WorkSubscription) -> Void = { _ in },
        observer: (@Sendable (WorkEvent<Value>) -> Void)? = nil
    ) async -> WorkOutcome<Value> {
        if Task.isCancelled { return .cancelled }
        let end = Promise<WorkOutcome<Value>>()
        let leaves: @Sendable () -> Void = { end.resolve(.cancelled) }
        let wantsProgress = observer != nil
        var subscription = subscribe(to: key, priority: priority, job: job, wantsProgress: wantsProgress) {
            subscription in
            var subscription = subscription
            subscription.onCancel = leaves
            willStart(subscription)
        } observer: { event, wasCoalesced in
            if let result = event.result {
                end.resolve(WorkOutcome(result: result, wasCoalesced: wasCoalesced))
            } else {
                observer?(event)
            }
        }
        subscription?.onCancel = leaves
        return await withTaskCancellationHandler {
            await end.value
        } onCancel: { [subscription] in
            subscription?.cancel()
        }
    }

    // MARK: - The table

    private typealias Share = (node: WorkNode<Value>, id: Int, actions: [WorkAction], isNew: Bool)

    private func share(
        _ key: Key,
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        wantsProgress: Bool
    ) -> Share {
        let first = WorkState<Value>.firstSubscriber
        if !isCoalescingEnabled { return (WorkNode(priority, observer, wantsProgress: wantsProgress), first, [], true) }
        return table.withLock { table in
            if let node = table.nodes[key]?.node,
                let joined = node.join(priority, observer, wantsProgress: wantsProgress)
            {
                return (node, joined.id, joined.actions, false)
            }
            // There is no node, or one that has ended and is about to remove itself.
            table.lastID += 1
            let id = table.lastID
            let node = WorkNode<Value>(priority, observer, wantsProgress: wantsProgress) { self.remove(key, id) }
            table.nodes[key] = (id, node)
            return (node, first, [], true)
        }
    }

    private func remove(_ key: Key, _ id: UInt64) {
        table.withLock { table in
            if table.nodes[key]?.id == id { table.nodes[key] = nil }
        }
    }
}
