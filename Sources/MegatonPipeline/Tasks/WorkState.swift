/// The state of one node: who waits for it, how urgent it is, what it needs, what is to be told. Without any effect of
/// its own: each change returns what is to be done, outside of the lock that guards the state.
///
/// ```
/// open ──the last subscriber leaves──► cancelled: task, links and handler are told, nobody else is
///   └────finish, or a dependency fails──► finished: subscribers are told the end
/// ```
struct WorkState<Value: Sendable>: Sendable {
    struct Subscriber: Sendable {
        let id: Int
        var priority: WorkPriority
        var revision: UInt64 = 0
        let observer: WorkObserver<Value>
    }

    enum Phase: Sendable {
        case open
        case cancelled
        /// A dependency that fails, or a body that throws, takes the outstanding operations with it; an operation that
        /// ends its node itself is left alone.
        case finished(cancelsOperations: Bool)

        var isOpen: Bool { if case .open = self { true } else { false } }
    }

    enum Delivery: Sendable {
        /// To those who had subscribed when it was its turn.
        case event(WorkEvent<Value>, through: Int, payer: Int?)
        /// Nothing to tell any more. Holds the observers of an ended node, to be freed outside of the lock.
        case done([Subscriber])
    }

    private(set) var phase = Phase.open
    /// The highest of the subscribers'; after the end as it was then.
    private(set) var priority: WorkPriority
    /// Of the priority: goes up with each change of it.
    private var revision: UInt64 = 0
    /// In the order in which they came, which is that of their ids.
    private(set) var subscribers: [Subscriber]
    private var subscribersByPriority = Array(repeating: 0, count: WorkPriority.allCases.count)
    private var lastSubscriber = Self.firstSubscriber
    /// Who paid, once the node has ended.
    private var payerAtEnd: Int?

    private var task: Task<Void, Never>?
    private var links: [Int: WorkLink] = [:]
    /// Places for links that are being made at the moment.
    private var reserved: Set<Int> = []
    private var nextLink = 0
    private var cancelHandler: (@Sendable () -> Void)?
    private var onClose: (@Sendable () -> Void)?

    /// At most one event of a kind, as a later one supersedes it.
    private var undelivered: [WorkEvent<Value>] = []
    private var isDelivering = false

    /// Work has a first subscriber from its beginning, as it would end without any.
    ///
    /// - Parameter onClose: called once, at the end of whichever kind, before anybody is told.
    init(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>,
        onClose: @escaping @Sendable () -> Void
    ) {
        self.priority = priority
        self.onClose = onClose
        subscribers = [Subscriber(id: Self.firstSubscriber, priority: priority, observer: observer)]
        subscribersByPriority[priority.rawValue] = 1
    }

    static var firstSubscriber: Int { 0 }
}

// MARK: - Subscribers

extension WorkState {
    /// The first of those who wait.
    var payer: Int? { phase.isOpen ? subscribers.first?.id : payerAtEnd }

    func contains(_ id: Int) -> Bool { index(of: id) != nil }

    /// - Returns: nil if the work has ended.
    mutating func join(
        _ priority: WorkPriority,
        _ observer: @escaping WorkObserver<Value>
    ) -> (id: Int, actions: [WorkAction])? {
        guard phase.isOpen else { return nil }
        lastSubscriber += 1
        subscribers.append(Subscriber(id: lastSubscriber, priority: priority, observer: observer))
        subscribersByPriority[priority.rawValue] += 1
        return (lastSubscriber, updatePriority())
    }

    /// The last one to leave ends the work.
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

    /// - Parameter revision: where changes may overtake each other, the one with the highest revision counts.
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
        let place = place(of: id)
        return place < subscribers.count && subscribers[place].id == id ? place : nil
    }

    /// The index of the first one with this id or a higher one.
    private func place(of id: Int) -> Int {
        var (low, high) = (0, subscribers.count)
        while low < high {
            let middle = (low + high) / 2
            if subscribers[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

// MARK: - What the work consists of

extension WorkState {
    private var orderedLinks: [WorkLink] { links.sorted { $0.key < $1.key }.map(\.value) }

    mutating func own(_ task: Task<Void, Never>) -> [WorkAction] {
        switch phase {
        case .open:
            precondition(self.task == nil, "a node has one task")
            self.task = task
            return []
        case .cancelled, .finished(cancelsOperations: true): return [.cancelTask(task)]
        // It may be the task itself that finished, faster than it was noted.
        case .finished(cancelsOperations: false): return []
        }
    }

    /// A place for a link that is about to be made: its end may come before the link does.
    ///
    /// - Returns: nil if the work has ended, and nothing should be begun for it any more.
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
            // The priority may have changed while the link was being made.
            return [.setPriority(link, priority, revision: revision)]
        case .cancelled, .finished(cancelsOperations: true): return [.cancel(link)]
        case .finished(cancelsOperations: false): return link.kind == .dependency ? [.cancel(link)] : []
        }
    }

    mutating func removeLink(_ id: Int) -> [WorkAction] {
        reserved.remove(id)
        return links.removeValue(forKey: id).map { [.release($0)] } ?? []
    }

    /// - Returns: the old handler to be released; or the new one to be called, if the work has been cancelled already.
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
    /// Events after the end are dropped. So is what a later event of its kind supersedes before anybody was told it.
    mutating func send(_ event: WorkEvent<Value>) -> [WorkAction] {
        phase.isOpen ? add(event) : []
    }

    mutating func finish(
        _ result: Result<Value, ImagePipeline.Error>,
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

    /// What whoever delivers has to tell next. There is one who delivers at a time, and he goes on until there is
    /// nothing.
    mutating func nextDelivery() -> Delivery {
        if undelivered.isEmpty {
            isDelivering = false
            if phase.isOpen { return .done([]) }
            defer { subscribers = [] }
            return .done(subscribers)
        }
        return .event(undelivered.removeFirst(), through: lastSubscriber, payer: payer)
    }

    /// Asked anew for each, so that whoever has left in the meantime is not told.
    func subscriber(after id: Int?, through last: Int) -> Subscriber? {
        let index = id.map { place(of: $0 + 1) } ?? 0
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
