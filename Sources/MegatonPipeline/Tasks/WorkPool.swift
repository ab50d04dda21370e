import Synchronization

/// Unfinished work of one kind by its key: who asks for a key that is being worked on gets a share in that work.
///
/// What has ended is forgotten at once; remembering is the caches' part.
final class WorkPool<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Table {
        var nodes: [Key: (id: UInt64, node: WorkNode<Value>)] = [:]
        var lastID: UInt64 = 0
    }

    private let isCoalescingEnabled: Bool
    /// Held around a node's lock, never inside of one.
    private let table = Mutex(Table())

    /// - Parameter isCoalescingEnabled: false for a piece of work for each subscriber.
    init(isCoalescingEnabled: Bool = true) { self.isCoalescingEnabled = isCoalescingEnabled }

    /// How many pieces of work could be joined.
    var count: Int { table.withLock { $0.nodes.count } }

    /// Who waits for any of it.
    var subscriberCount: Int {
        table.withLock { $0.nodes.values.map(\.node) }.reduce(0) { $0 + $1.subscriberCount }
    }

    /// Takes a share in the work for a key, which is started if nobody works on it.
    ///
    /// - Parameters:
    ///   - priority: of this subscriber; the work takes the highest one.
    ///   - job: what to do if this is the first subscriber.
    ///   - willStart: is given the subscription before the work begins, so that nothing of it goes on where who
    ///     subscribes has ended meanwhile.
    ///   - observer: is told what happens from now on, perhaps before this function returns: progress, better and
    ///     better values where there are such, and one end, which is the last it hears.
    /// - Returns: nil if the work has ended already.
    @discardableResult
    func subscribe(
        to key: Key,
        priority: WorkPriority = .normal,
        job: WorkJob<Value>,
        willStart: (WorkSubscription) -> Void = { _ in },
        observer: @escaping WorkObserver<Value>
    ) -> WorkSubscription? {
        let share = share(key, priority, observer)
        share.node.act(share.actions)
        willStart(WorkSubscription(node: share.node, id: share.id))
        if share.isNew { job.start(WorkContext(node: share.node)) }
        return share.node.contains(share.id) ? WorkSubscription(node: share.node, id: share.id) : nil
    }

    /// Waits for the end of the work, as one of its subscribers. If the calling task is cancelled, he leaves.
    ///
    /// - Parameters:
    ///   - willStart: is given the subscription, whose priority can be changed, before the work begins.
    ///   - observer: is told what comes before the end.
    func outcome(
        for key: Key,
        priority: WorkPriority = .normal,
        job: WorkJob<Value>,
        willStart: (WorkSubscription) -> Void = { _ in },
        observer: @escaping @Sendable (WorkEvent<Value>) -> Void = { _ in }
    ) async -> WorkOutcome<Value> {
        if Task.isCancelled { return .cancelled }
        let end = OneShot<WorkOutcome<Value>>()
        let leaves: @Sendable () -> Void = { end.resolve(.cancelled) }
        var subscription = subscribe(to: key, priority: priority, job: job) { subscription in
            var subscription = subscription
            subscription.onCancel = leaves
            willStart(subscription)
        } observer: { event, wasCoalesced in
            if let result = event.result {
                end.resolve(WorkOutcome(result: result, wasCoalesced: wasCoalesced))
            } else {
                observer(event)
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

    private func share(_ key: Key, _ priority: WorkPriority, _ observer: @escaping WorkObserver<Value>) -> Share {
        let first = WorkState<Value>.firstSubscriber
        if !isCoalescingEnabled { return (WorkNode(priority, observer), first, [], true) }
        return table.withLock { table in
            if let node = table.nodes[key]?.node, let joined = node.join(priority, observer) {
                return (node, joined.id, joined.actions, false)
            }
            // There is none, or one that has ended and is about to take itself out.
            table.lastID += 1
            let id = table.lastID
            let node = WorkNode<Value>(priority, observer) { self.remove(key, id) }
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
