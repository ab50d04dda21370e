extension TaskQueue {
    /// Pending and running operations. Pure state: effects are left to the queue.
    ///
    /// ```
    /// waiting ──takeReady──► due ──begin──► running ──end──► gone
    ///    └──────cancel────────┴──► never begins
    /// ```
    struct State: Sendable {
        /// Removed from the state as a whole, so that objects which the closures retain are released outside the lock.
        struct Body: Sendable {
            let work: @Sendable () async -> Void
            let dropped: @Sendable () -> Void
        }

        /// Remaining action after a cancellation, performed outside the lock.
        enum Cancellation: Sendable {
            case nothing
            case drop(Body)
            case cancel(Task<Void, Never>)
        }

        private struct Entry {
            /// Position among pending operations; nil once the operation has a slot.
            var position: Int?
            /// Nil once the operation has started or is cancelled.
            var body: Body?
            var revision: UInt64 = 0
            var task: Task<Void, Never>?
            var isCancelled = false
        }

        private var entries: [Int: Entry] = [:]
        private var nextID = 0
        private(set) var pending = PriorityBuckets<Int>()
        private(set) var runningCount = 0
        var width: Int
        var isSuspended = false

        init(width: Int) { self.width = width }

        mutating func add(_ priority: WorkPriority, _ body: Body) -> Int {
            nextID += 1
            entries[nextID] = Entry(position: pending.append(nextID, priority: priority), body: body)
            return nextID
        }

        /// Assigns free slots to pending operations, the most urgent ones first.
        mutating func takeReady() -> [Int] {
            var ready: [Int] = []
            while !isSuspended, runningCount < width, let id = pending.popFirst() {
                entries[id]?.position = nil
                runningCount += 1
                ready.append(id)
            }
            return ready
        }

        /// - Returns: whether the task must be cancelled.
        mutating func attach(_ task: Task<Void, Never>, to id: Int) -> Bool {
            entries[id]?.task = task
            return entries[id]?.isCancelled ?? false
        }

        /// - Returns: the body to run; nil if the operation was cancelled after it got its slot and before it started.
        mutating func begin(_ id: Int) -> Body? {
            defer { entries[id]?.body = nil }
            return entries[id]?.body
        }

        mutating func end(_ id: Int) {
            entries[id] = nil
            runningCount -= 1
        }

        mutating func cancel(_ id: Int) -> Cancellation {
            guard let entry = entries[id], !entry.isCancelled else { return .nothing }
            if let position = entry.position {
                pending.remove(position)
                entries[id] = nil
            } else {
                entries[id]?.isCancelled = true
                entries[id]?.body = nil
            }
            if let body = entry.body { return .drop(body) }
            return entry.task.map { .cancel($0) } ?? .nothing
        }

        mutating func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int) {
            guard let entry = entries[id], let position = entry.position else { return }
            if let revision {
                if revision < entry.revision { return }
                entries[id]?.revision = revision
            }
            pending.move(position, to: priority)
        }
    }
}
