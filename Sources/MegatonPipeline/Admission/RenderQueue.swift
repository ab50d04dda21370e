/// Render slots of one pipeline, as many as it has render threads; waiting renders are ordered by priority.
///
/// `RenderAdmission` decides about them, together with the memory that the pipeline shares with others.
final class RenderQueue: Sendable {
    let admission: RenderAdmission
    fileprivate let id: Int

    /// - Parameter width: number of slots.
    init(_ budget: MemoryBudget, width: Int) {
        precondition(width > 0, "a queue needs at least one slot")
        admission = budget.admission
        id = admission.addQueue(width: width)
    }

    // Every waiter and every grant retains the queue, so there are none.
    deinit { admission.removeQueue(id) }

    /// While true, no render starts; running ones continue.
    var isSuspended: Bool {
        get { admission.isSuspended(queue: id) }
        set { admission.setSuspended(newValue, queue: id) }
    }

    /// Operations and renders that wait for a slot alone.
    var pendingCount: Int { admission.pendingCount(queue: id) }
    /// Slots in use.
    var runningCount: Int { admission.runningCount(queue: id) }

    /// Adds an operation that needs a slot and no memory.
    ///
    /// - Parameters:
    ///   - dropped: called instead of `work` if the operation is cancelled before it starts.
    ///   - work: runs in its own Swift task, which is cancelled with the operation.
    @discardableResult
    func enqueue(
        priority: WorkPriority = .normal,
        dropped: @escaping @Sendable () -> Void = {},
        _ work: @escaping @Sendable () async -> Void
    ) -> Operation {
        let start = Promise<Bool>()
        let number = admission.nextNumber()
        let request = RenderAdmission.Request(number: number, queue: id, cost: nil, priority: priority)
        if admission.acquire(request, { start.resolve($0) }) { start.resolve(true) }
        // Unstructured, as the caller does not wait here. The operation owns the task, which is cancelled with it, and
        // releases the slot as its last act. Detached, as the task that calls this has another priority, and other
        // task-local values.
        let task = Task.detached { [self] in
            guard await start.value else { return dropped() }
            defer { admission.release(queue: id, nil) }
            if Task.isCancelled { dropped() } else { await work() }
        }
        return Operation(queue: self, number: number, task: task)
    }

    /// Handle of an operation. Its methods can be called at any time; after the end they do nothing.
    struct Operation: Sendable {
        fileprivate let queue: RenderQueue
        fileprivate let number: Int
        fileprivate let task: Task<Void, Never>

        /// Removes the operation from the queue if it has not started, else cancels its Swift task.
        func cancel() {
            task.cancel()
            queue.admission.cancel(number)
        }
    }
}

/// The slot for a render thread that one render asks for, with its priority.
struct RenderSlot: Sendable {
    let queue: RenderQueue
    /// Work item that needs the render and determines its priority; nil if there is none.
    let context: (any WorkParent)?
    /// Priority if there is no context.
    var priority = WorkPriority.normal

    /// Suspends until a slot is free, and records the wait.
    ///
    /// - Throws: `.cancelled` if no caller waits for the render any more.
    func acquire() async throws(ImageError) -> RenderGrant {
        if let context, !context.isOpen { throw context.ended }
        let start = ContinuousClock.now
        defer { QueueWaitRecorder.current?.waited(since: start) }
        let number = queue.admission.nextNumber()
        let isGranted = await following(number) { onWait in
            await queue.admission.acquire(request(number, nil), onWait: onWait)
        }
        if isGranted { return RenderGrant(self, number) }
        throw ImageError(.cancelled, "The operation was cancelled while it waited for a slot.")
    }

    /// Runs work in a slot.
    ///
    /// - Throws: the error of the work; `.cancelled` if no caller waits for it any more.
    func perform<Value: Sendable>(
        _ work: () async throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        let grant = try await acquire()
        defer { grant.release() }
        return try await work()
    }

    fileprivate func request(_ number: Int, _ cost: RenderCost?) -> RenderAdmission.Request {
        RenderAdmission.Request(
            number: number,
            queue: queue.id,
            cost: cost,
            priority: context?.priority ?? priority
        )
    }

    /// While a request waits, changes its priority with that of the context, and cancels it when the context ends.
    ///
    /// - Parameter wait: receives a function to call when the request begins to wait.
    fileprivate func following<Value: Sendable, Failure: Error>(
        _ number: Int,
        _ wait: (_ onWait: () -> Void) async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard let context else { return try await wait {} }
        var link: Int?
        defer { if let link { context.removeLink(link) } }
        return try await wait {
            link = context.reserveLink()
            guard let link else { return queue.admission.cancel(number) }
            context.attach(WorkLink(waiter: number, of: queue.admission), to: link)
        }
    }
}

/// Slot and memory that a render holds. `release` must be called once, whatever has happened to the render.
struct RenderGrant: Sendable {
    private let admission: RenderAdmission
    /// Nil for a render that needs no slot, because it is the only user of its threads.
    private let slot: RenderSlot?
    private let number: Int
    /// Whether there is a slot, or memory without a slot.
    private var isHeld: Bool
    private var cost: RenderCost?

    /// A grant that has a slot.
    fileprivate init(_ slot: RenderSlot, _ number: Int) {
        (admission, self.slot, self.number, isHeld) = (slot.queue.admission, slot, number, true)
    }

    /// A grant that has nothing, and is upgraded to memory alone.
    init(withoutSlot budget: MemoryBudget) {
        (admission, slot, isHeld) = (budget.admission, nil, false)
        number = admission.nextNumber()
    }

    /// Acquires memory beside the slot if it is available. It does not change the grant, so that a render thread can
    /// call it: after a success, the owner of the grant must call `hold`.
    ///
    /// - Throws: `.tooCostly` if the cost exceeds the capacity.
    func tryUpgrade(to cost: RenderCost) throws(ImageError) -> Bool {
        try admission.check(cost)
        return admission.tryAcquire(request(cost), holdsSlot: isHeld)
    }

    /// Records memory that `tryUpgrade` has acquired for the grant.
    mutating func hold(_ cost: RenderCost) {
        isHeld = true
        self.cost = cost
    }

    /// Suspends until there is memory; meanwhile, the slot is given back. Records the wait.
    ///
    /// - Throws: `.tooCostly` if the cost exceeds the capacity; `.cancelled` if no caller waits for the render.
    mutating func upgrade(to cost: RenderCost) async throws(ImageError) {
        try admission.check(cost)
        let (request, holdsSlot) = (request(cost), isHeld)
        isHeld = false
        if let slot {
            try await slot.following(number) { [admission] (onWait) async throws(ImageError) in
                try await admission.acquireMemory(for: request, holdsSlot: holdsSlot, onWait: onWait)
            }
        } else {
            try await admission.acquireMemory(for: request, holdsSlot: holdsSlot)
        }
        hold(cost)
    }

    /// Releases the slot and the memory together.
    func release() {
        if isHeld { admission.release(queue: slot?.queue.id ?? RenderAdmission.withoutSlot, cost) }
    }

    private func request(_ cost: RenderCost) -> RenderAdmission.Request {
        slot?.request(number, cost)
            ?? RenderAdmission.Request(
                number: number,
                queue: RenderAdmission.withoutSlot,
                cost: cost,
                priority: .normal
            )
    }
}

extension WorkContext {
    /// Runs work in a render slot without waiting for it. The work reports its result itself, through this context.
    func enqueue(on queue: RenderQueue, _ work: @escaping @Sendable () async -> Void) {
        guard let link = node.reserveLink() else { return }
        let operation = queue.enqueue(priority: priority) {
            node.removeLink(link)
        } _: {
            await work()
            node.removeLink(link)
        }
        node.attach(WorkLink(operation), to: link)
    }
}

extension WorkLink {
    fileprivate init(_ operation: RenderQueue.Operation) {
        self.init(kind: .operation) {
            operation.queue.admission.setPriority($0, revision: $1, of: operation.number)
        } cancel: {
            operation.cancel()
        }
    }

    fileprivate init(waiter number: Int, of admission: RenderAdmission) {
        self.init(kind: .operation) {
            admission.setPriority($0, revision: $1, of: number)
        } cancel: {
            admission.cancel(number)
        }
    }
}
