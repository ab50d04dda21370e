import Synchronization

/// One unit of shared work: runs once for all its subscribers, with the highest of their priorities, and only while it
/// has a subscriber.
///
/// No foreign code is called with the lock held. The only lock that may be held around it is the pool's, in `join`.
/// Each node has its own lock, so nodes never wait for each other.
final class WorkNode<Value: Sendable>: WorkSubscribable {
    private let state: Mutex<WorkState<Value>>

    init(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        wantsProgress: Bool = true,
        onClose: @escaping @Sendable () -> Void = {}
    ) {
        state = Mutex(WorkState(priority, observer, wantsProgress: wantsProgress, onClose: onClose))
    }

    var subscriberCount: Int { state.withLock { $0.subscribers.count } }
    var isOpen: Bool { state.withLock { $0.phase.isOpen } }
    var priority: WorkPriority { state.withLock { $0.priority } }
    /// Number of the dependencies and operations that inherit the priority.
    var linkCount: Int { state.withLock { $0.links.count } }

    // MARK: - Subscribers

    /// Returns its actions, so that a pool can call it with its own lock held and call `act` after releasing that.
    ///
    /// - Returns: nil if the work has ended.
    func join(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        wantsProgress: Bool = true
    ) -> (id: Int, actions: [WorkAction])? {
        state.withLock { $0.join(priority, observer, wantsProgress: wantsProgress) }
    }

    func leave(_ id: Int) { change { $0.leave(id) } }

    func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int) {
        change { $0.setPriority(priority, revision: revision, of: id) }
    }

    func contains(_ id: Int) -> Bool { state.withLock { $0.contains(id) } }

    func wasCoalesced(_ id: Int) -> Bool { state.withLock { $0.payer.map { $0 < id } ?? false } }

    // MARK: - Work

    func own(_ task: Task<Void, Never>) { change { $0.own(task) } }
    func reserveLink() -> Int? { state.withLock { $0.reserveLink() } }
    func attach(_ link: WorkLink, to id: Int) { change { $0.attach(link, to: id) } }
    func removeLink(_ id: Int) { change { $0.removeLink(id) } }
    func setCancelHandler(_ handler: (@Sendable () -> Void)?) { change { $0.setCancelHandler(handler) } }

    func send(_ event: WorkEvent<Value>) { change { $0.send(event) } }

    func finish(_ result: Result<Value, ImageError>, cancelsOperations: Bool = false) {
        change { $0.finish(result, cancelsOperations: cancelsOperations) }
    }

    // MARK: - Effects

    private func change(_ transition: (inout WorkState<Value>) -> [WorkAction]) {
        act(state.withLock { transition(&$0) })
    }

    func act(_ actions: [WorkAction]) {
        for action in actions {
            switch action {
            case .setPriority(let link, let priority, let revision): link.setPriority(priority, revision)
            case .cancel(let link): link.cancel()
            case .cancelTask(let task): task.cancel()
            case .call(let function): function()
            case .deliver: deliver()
            case .release: break
            }
        }
    }

    /// Delivers pending events. If another thread is in here already, the event is left to that one: events stay in
    /// order without a lock around the observers, and without a Swift task for each event.
    private func deliver() {
        while case .event(let event, let last, let payer) = state.withLock({ $0.nextDelivery() }) {
            var notified: Int?
            while let subscriber = state.withLock({ $0.subscriber(after: notified, through: last) }) {
                subscriber.observer(event, subscriber.id != payer)
                notified = subscriber.id
            }
        }
    }
}
