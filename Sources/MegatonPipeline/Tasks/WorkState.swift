/// State of one node: subscribers, priority, links, and events to deliver. Pure state: each change returns the actions
/// to perform outside the lock that guards the state.
///
/// ```
/// open ──the last subscriber leaves──► cancelled: task and links are cancelled, the handler is called
///   └────finish, or a dependency fails──► finished: subscribers receive the final event
/// ```
struct WorkState<Value: Sendable>: Sendable {
    struct Subscriber: Sendable {
        let id: Int
        var priority: WorkPriority
        var revision: UInt64 = 0
        let observer: WorkObserver<Value>
        /// Whether the observer uses progress, which is dropped if no subscriber does.
        let wantsProgress: Bool
    }

    enum Phase: Sendable {
        case open
        case cancelled
        /// If a dependency fails, or a body throws, outstanding operations are cancelled. An operation that ends its
        /// node itself is not cancelled.
        case finished(cancelsOperations: Bool)

        var isOpen: Bool { if case .open = self { true } else { false } }
    }

    enum Delivery: Sendable {
        /// For subscribers that had joined by the time of its delivery.
        case event(WorkEvent<Value>, through: Int, payer: Int?)
        /// No event is left. Holds the observers of an ended node, to be released outside the lock.
        case done([Subscriber])
    }

    private(set) var phase = Phase.open
    /// Highest priority of the subscribers; after the end, its last value.
    private(set) var priority: WorkPriority
    /// Revision of the priority, incremented with each change.
    private var revision: UInt64 = 0
    /// In the order of their arrival, which is that of their ids.
    private(set) var subscribers: [Subscriber]
    private var subscribersByPriority = Array(repeating: 0, count: WorkPriority.allCases.count)
    private var lastSubscriber = Self.firstSubscriber
    /// The `payer` when the node ended.
    private var payerAtEnd: Int?

    private var task: Task<Void, Never>?
    private(set) var links: [Int: WorkLink] = [:]
    /// Ids of links that are being created.
    private var reserved: Set<Int> = []
    private var nextLink = 0
    private var cancelHandler: (@Sendable () -> Void)?
    private var onClose: (@Sendable () -> Void)?

    /// At most one event of a kind, as a later one supersedes it.
    private var undelivered: [WorkEvent<Value>] = []
    private var isDelivering = false

    /// Creates the state with a first subscriber, as work without any would end.
    ///
    /// - Parameter onClose: called once, at an end of any kind, before observers are called.
    init(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        wantsProgress: Bool = true,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.priority = priority
        self.onClose = onClose
        let id = Self.firstSubscriber
        subscribers = [Subscriber(id: id, priority: priority, observer: observer, wantsProgress: wantsProgress)]
        subscribersByPriority[priority.rawValue] = 1
    }

    static var firstSubscriber: Int { 0 }
}

// MARK: - Subscribers

extension WorkState {
    /// First subscriber that still waits: the cost of the work is attributed to it.
    var payer: Int? { phase.isOpen ? subscribers.first?.id : payerAtEnd }

    func contains(_ id: Int) -> Bool { index(of: id) != nil }

    /// - Returns: nil if the work has ended.
    mutating func join(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        wantsProgress: Bool = true
    ) -> (id: Int, actions: [WorkAction])? {
        guard phase.isOpen else { return nil }
        lastSubscriber += 1
        subscribers.append(
            Subscriber(id: lastSubscriber, priority: priority, observer: observer, wantsProgress: wantsProgress)
        )
        subscribersByPriority[priority.rawValue] += 1
        return (lastSubscriber, updatePriority())
    }

    /// Removes a subscriber. When the last one leaves, the work ends.
    mutating func leave(_ id: Int) -> [WorkAction] {
        guard let index = index(of: id) else { return [] }
        let payer = payer
        let subscriber = subscribers.remove(at: index)
        subscribersByPriority[subscriber.priority.rawValue] -= 1
        let release = [WorkAction.release(subscriber)]
        guard phase.isOpen else { return release }
        if !subscribers.isEmpty { return updatePriority() + release }
        payerAtEnd = payer
        return close(.cancelled) + release
    }

    /// - Parameter revision: orders changes that may overtake each other: the highest one counts.
    mutating func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int) -> [WorkAction] {
        guard let index = index(of: id) else { return [] }
        if let revision {
            if revision < subscribers[index].revision { return [] }
            subscribers[index].revision = revision
        }
        subscribersByPriority[subscribers[index].priority.rawValue] -= 1
        subscribersByPriority[priority.rawValue] += 1
        subscribers[index].priority = priority
        return phase.isOpen ? updatePriority() : []
    }

    private mutating func updatePriority() -> [WorkAction] {
        let highest = subscribersByPriority.lastIndex { $0 > 0 }.flatMap { WorkPriority(rawValue: $0) }
        guard let highest, highest != priority else { return [] }
        priority = highest
        revision += 1
        return orderedLinks.map { .setPriority($0, priority, revision: revision) }
    }

    private func index(of id: Int) -> Int? {
        let position = position(of: id)
        return position < subscribers.count && subscribers[position].id == id ? position : nil
    }

    /// Index of the first subscriber with this id or a higher one.
    private func position(of id: Int) -> Int {
        var (low, high) = (0, subscribers.count)
        while low < high {
            let middle = (low + high) / 2
            if subscribers[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

// MARK: - Task and links

extension WorkState {
    private var orderedLinks: [WorkLink] { links.sorted { $0.key < $1.key }.map(\.value) }

    mutating func own(_ task: Task<Void, Never>) -> [WorkAction] {
        switch phase {
        case .open:
            precondition(self.task == nil, "a node has one task")
            self.task = task
            return []
        case .cancelled, .finished(cancelsOperations: true): return [.cancelTask(task)]
        // The task itself may have finished the node before it was recorded here.
        case .finished(cancelsOperations: false): return []
        }
    }

    /// Reserves an id for a link that is about to be created, as the link may end before it is attached.
    ///
    /// - Returns: nil if the work has ended, and nothing may be started for it any more.
    mutating func reserveLink() -> Int? {
        guard phase.isOpen else { return nil }
        nextLink += 1
        reserved.insert(nextLink)
        return nextLink
    }

    mutating func attach(_ link: WorkLink, to id: Int) -> [WorkAction] {
        guard reserved.remove(id) != nil else { return [] }
        switch phase {
        case .open:
            links[id] = link
            // The priority may have changed while the link was being created.
            return [.setPriority(link, priority, revision: revision)]
        case .cancelled, .finished(cancelsOperations: true): return [.cancel(link)]
        case .finished(cancelsOperations: false): return link.kind == .dependency ? [.cancel(link)] : []
        }
    }

    mutating func removeLink(_ id: Int) -> [WorkAction] {
        reserved.remove(id)
        return links.removeValue(forKey: id).map { [.release($0)] } ?? []
    }

    /// - Returns: action that releases the old handler, or calls the new one if the work was cancelled already.
    mutating func setCancelHandler(_ handler: (@Sendable () -> Void)?) -> [WorkAction] {
        switch phase {
        case .open:
            defer { cancelHandler = handler }
            return cancelHandler.map { [.release($0)] } ?? []
        case .cancelled: return handler.map { [.call($0)] } ?? []
        case .finished: return []
        }
    }
}

// MARK: - Events and the end

extension WorkState {
    /// Adds an event. Events after the end are dropped, and so is an undelivered event that a later one supersedes.
    mutating func send(_ event: WorkEvent<Value>) -> [WorkAction] {
        if case .progress = event, !subscribers.contains(where: \.wantsProgress) { return [] }
        return phase.isOpen ? add(event) : []
    }

    mutating func finish(
        _ result: Result<Value, ImageError>,
        cancelsOperations: Bool
    ) -> [WorkAction] {
        guard phase.isOpen else { return [] }
        payerAtEnd = payer
        let closing = close(.finished(cancelsOperations: cancelsOperations))
        switch result {
        case .success(let value): return closing + add(.value(value, isCompleted: true))
        case .failure(let error): return closing + add(.failure(error))
        }
    }

    private mutating func add(_ event: WorkEvent<Value>) -> [WorkAction] {
        var release: [WorkAction] = []
        if let index = undelivered.firstIndex(where: { event.supersedes($0) }) {
            release = [.release(undelivered.remove(at: index))]
        }
        undelivered.append(event)
        if isDelivering { return release }
        isDelivering = true
        return release + [.deliver]
    }

    /// Next event for the delivering thread. Only one thread delivers at a time, and continues until none is left.
    mutating func nextDelivery() -> Delivery {
        if undelivered.isEmpty {
            isDelivering = false
            if phase.isOpen { return .done([]) }
            defer { subscribers = [] }
            return .done(subscribers)
        }
        return .event(undelivered.removeFirst(), through: lastSubscriber, payer: payer)
    }

    /// Looked up for each call of an observer, so that subscribers that have left meanwhile are skipped.
    func subscriber(after id: Int?, through last: Int) -> Subscriber? {
        let index = id.map { position(of: $0 + 1) } ?? 0
        return index < subscribers.count && subscribers[index].id <= last ? subscribers[index] : nil
    }

    private mutating func close(_ phase: Phase) -> [WorkAction] {
        self.phase = phase
        var actions: [WorkAction] = []
        var cancelsOperations = true
        if case .finished(cancelsOperations: false) = phase { cancelsOperations = false }
        if let task, cancelsOperations { actions.append(.cancelTask(task)) }
        for link in orderedLinks {
            actions.append(cancelsOperations || link.kind == .dependency ? .cancel(link) : .release(link))
        }
        if let cancelHandler {
            if case .cancelled = phase {
                actions.append(.call(cancelHandler))
            } else {
                actions.append(.release(cancelHandler))
            }
        }
        if let onClose { actions.append(.call(onClose)) }
        task = nil
        links = [:]
        cancelHandler = nil
        onClose = nil
        return actions
    }
}

/// Effects of a change of a node's state, performed in order and with no lock held.
enum WorkAction: Sendable {
    case setPriority(WorkLink, WorkPriority, revision: UInt64)
    case cancel(WorkLink)
    case cancelTask(Task<Void, Never>)
    case call(@Sendable () -> Void)
    case deliver
    /// Only releases the value: its deinitializer may run foreign code, which must not happen inside a lock.
    case release(any Sendable)
}
