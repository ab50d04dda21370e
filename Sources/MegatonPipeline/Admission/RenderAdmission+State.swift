extension RenderAdmission {
    /// Needs of a render, or of a copy.
    struct Request: Sendable {
        /// Identifies the request while it waits. Lower numbers are older. A render keeps its number when it waits a
        /// second time.
        let number: Int
        /// Queue of the pipeline whose slot is needed; `withoutSlot` if memory is enough.
        let queue: Int
        /// Memory that is needed; nil if a slot is enough.
        let cost: RenderCost?
        var priority: WorkPriority
    }

    /// Slots, memory and waiters. Pure state: waiters are resumed outside the lock.
    ///
    /// After each change, also after a grant, `admit` must be called: no waiter is left that could start. A grant can
    /// take the last slot of a pipeline whose first waiter has stopped others until then.
    struct State: Sendable {
        /// Lines of waiters in each queue.
        private enum Line: Int, CaseIterable {
            case slot
            case streamed
            case buffered

            init(_ cost: RenderCost?) { self = cost.map { $0.isBuffered ? .buffered : .streamed } ?? .slot }
        }

        private struct Waiter {
            var request: Request
            /// The number of the request, or a higher one if its priority has risen.
            var age: Int
            var revision: UInt64 = 0
            /// How often memory was granted to a request behind it while it was the first of its queue for memory.
            var overtakenCount = 0
            let position: Int
            let resume: Resume

            /// Whether the memory that it needs is reserved for it, and a slot of its queue.
            var hasReservation: Bool { overtakenCount >= State.overtakingLimit }
        }

        private struct Queue {
            let width: Int
            var runningCount = 0
            var isSuspended = false
            /// Numbers of the waiters, by line.
            var lines = Array(repeating: PriorityBuckets<Int>(), count: Line.allCases.count)

            var hasFreeSlot: Bool { !isSuspended && runningCount < width }
        }

        let bytes: Int
        private(set) var counts = MemoryBudget.Counts()
        private var bufferedBytes = 0
        private var queues = [RenderAdmission.withoutSlot: Queue(width: .max)]
        private var lastQueue = RenderAdmission.withoutSlot
        private var waiters: [Int: Waiter] = [:]

        /// Requests behind it that may be granted memory before a waiter.
        private static let overtakingLimit = 64

        init(bytes: Int) { self.bytes = bytes }
    }
}

// MARK: - Queues

extension RenderAdmission.State {
    mutating func addQueue(width: Int) -> Int {
        lastQueue += 1
        queues[lastQueue] = Queue(width: width)
        return lastQueue
    }

    mutating func removeQueue(_ queue: Int) { queues[queue] = nil }

    func isSuspended(_ queue: Int) -> Bool { queues[queue]?.isSuspended ?? false }

    mutating func setSuspended(_ isSuspended: Bool, _ queue: Int) { queues[queue]?.isSuspended = isSuspended }

    func pendingCount(_ queue: Int) -> Int { queues[queue]?.lines[Line.slot.rawValue].count ?? 0 }

    func runningCount(_ queue: Int) -> Int { queues[queue]?.runningCount ?? 0 }
}

// MARK: - Requests

extension RenderAdmission.State {
    typealias Request = RenderAdmission.Request

    /// Grants a request that does not wait, unless it needs something that is in use, or due to a waiter before it.
    mutating func grant(_ request: Request, holdsSlot: Bool) -> Bool {
        guard holdsSlot || hasSlot(for: request, request.number) else { return false }
        if let cost = request.cost {
            if counts.waiting > 0 {
                let head = head(of: Line(cost)) {
                    $0.request.queue == request.queue ? isActive(request.queue) : hasSlot(for: $0.request, $0.age)
                }
                if let head, precedes(head, request, request.number) { return false }
            }
            guard mayAcquire(cost, request, request.number) else { return false }
        }
        use(request, request.number, holdsSlot: holdsSlot)
        return true
    }

    /// Adds a request to the waiters.
    mutating func wait(_ request: Request, _ resume: @escaping RenderAdmission.Resume) {
        let line = Line(request.cost).rawValue
        guard let position = queues[request.queue]?.lines[line].append(request.number, priority: request.priority)
        else { preconditionFailure("a request needs a queue") }
        waiters[request.number] = Waiter(request: request, age: request.number, position: position, resume: resume)
        if request.cost == nil { return }
        counts.waiting += 1
        counts.waited += 1
    }

    /// - Returns: the function that resumes the waiter, if the request waits.
    mutating func remove(_ number: Int) -> RenderAdmission.Resume? {
        guard let waiter = waiters[number] else { return nil }
        unlink(waiter)
        return waiter.resume
    }

    /// - Parameter age: age of the request if its priority rises: the youngest.
    mutating func setPriority(_ priority: WorkPriority, revision: UInt64?, of number: Int, age: Int) {
        guard var waiter = waiters[number] else { return }
        if let revision {
            if revision < waiter.revision { return }
            waiter.revision = revision
        }
        if priority > waiter.request.priority { waiter.age = age }
        waiter.request.priority = priority
        waiters[number] = waiter
        queues[waiter.request.queue]?.lines[Line(waiter.request.cost).rawValue].move(waiter.position, to: priority)
    }

    /// Releases the grant of a request: a slot of its queue, and memory.
    mutating func release(_ queue: Int, _ cost: RenderCost?) {
        queues[queue]?.runningCount -= 1
        guard let cost else { return }
        counts.bytesInUse -= cost.bytes
        if cost.isBuffered { bufferedBytes -= cost.bytes }
    }

    /// Grants the requests of all waiters that can start, the first ones first.
    mutating func admit() -> [RenderAdmission.Resume] {
        var admitted: [RenderAdmission.Resume] = []
        while !waiters.isEmpty, let waiter = next() {
            use(waiter.request, waiter.age, holdsSlot: false)
            unlink(waiter)
            admitted.append(waiter.resume)
        }
        return admitted
    }

    /// First waiter that can start: the first one of a line has a free slot, and its memory fits.
    private func next() -> Waiter? {
        var next: Waiter?
        for line in Line.allCases {
            guard let head = head(of: line, where: { hasSlot(for: $0.request, $0.age) }) else { continue }
            if let next, precedes(next, head.request, head.age) { continue }
            if let cost = head.request.cost, !mayAcquire(cost, head.request, head.age) { continue }
            next = head
        }
        return next
    }

    private mutating func unlink(_ waiter: Waiter) {
        let request = waiter.request
        waiters[request.number] = nil
        queues[request.queue]?.lines[Line(request.cost).rawValue].remove(waiter.position)
        if request.cost != nil { counts.waiting -= 1 }
    }

    private mutating func use(_ request: Request, _ age: Int, holdsSlot: Bool) {
        if !holdsSlot { queues[request.queue]?.runningCount += 1 }
        guard let cost = request.cost else { return }
        if counts.waiting > 0 {
            for queue in queues.values {
                guard let first = firstForMemory(in: queue), precedes(first, request, age) else { continue }
                waiters[first.request.number]?.overtakenCount += 1
            }
        }
        counts.bytesInUse += cost.bytes
        if cost.isBuffered { bufferedBytes += cost.bytes }
    }

    // MARK: Order

    /// First of the waiters that are the first ones of a line in their queues, and fulfill a condition.
    private func head(of line: Line, where isIncluded: (Waiter) -> Bool) -> Waiter? {
        var head: Waiter?
        for queue in queues.values {
            guard let waiter = first(of: line, in: queue), isIncluded(waiter) else { continue }
            if let head, precedes(head, waiter.request, waiter.age) { continue }
            head = waiter
        }
        return head
    }

    private func first(of line: Line, in queue: Queue) -> Waiter? {
        queue.lines[line.rawValue].first.flatMap { waiters[$0] }
    }

    /// First waiter for memory in a queue, whether there is a slot for it or not.
    private func firstForMemory(in queue: Queue) -> Waiter? {
        guard let streamed = first(of: .streamed, in: queue) else { return first(of: .buffered, in: queue) }
        guard let buffered = first(of: .buffered, in: queue) else { return streamed }
        return precedes(streamed, buffered.request, buffered.age) ? streamed : buffered
    }

    private func precedes(_ waiter: Waiter, _ request: Request, _ age: Int) -> Bool {
        if waiter.request.priority != request.priority { return waiter.request.priority > request.priority }
        return waiter.age < age
    }

    // MARK: Slots

    private func isActive(_ queue: Int) -> Bool { queues[queue]?.isSuspended == false }

    /// Whether a slot of the queue is free, and not reserved for a waiter before the request.
    private func hasSlot(for request: Request, _ age: Int) -> Bool {
        guard let queue = queues[request.queue], queue.hasFreeSlot else { return false }
        guard counts.waiting > 0, queue.width - queue.runningCount == 1, let first = firstForMemory(in: queue),
            first.hasReservation
        else { return true }
        return !precedes(first, request, age)
    }

    // MARK: Memory

    /// Whether memory is free, and not reserved for a waiter before the request.
    private func mayAcquire(_ cost: RenderCost, _ request: Request, _ age: Int) -> Bool {
        guard hasPlace(cost) else { return false }
        guard counts.waiting > 0, let reserved = reservation(before: request, age)?.request.cost else { return true }
        return hasPlace(reserved, beside: cost)
    }

    /// First waiter before the request whose memory is reserved: there is a slot for it, or the request has the slot.
    private func reservation(before request: Request, _ age: Int) -> Waiter? {
        var reservation: Waiter?
        for (id, queue) in queues {
            guard id == request.queue ? !queue.isSuspended : queue.hasFreeSlot, let first = firstForMemory(in: queue),
                first.hasReservation, precedes(first, request, age)
            else { continue }
            if let reservation, precedes(reservation, first.request, first.age) { continue }
            reservation = first
        }
        return reservation
    }

    private func hasPlace(_ cost: RenderCost, beside other: RenderCost? = nil) -> Bool {
        if counts.bytesInUse + (other?.bytes ?? 0) + cost.bytes > bytes { return false }
        if !cost.isBuffered { return true }
        var buffered = bufferedBytes
        if let other, other.isBuffered { buffered += other.bytes }
        return buffered == 0 || buffered + cost.bytes <= bytes / 2
    }
}
