import Synchronization

/// Admits renders by their memory cost, first come, first served, in two queues: one for sources decoded row by row,
/// and one for sources that are buffered whole. The second queue gets half of the memory, or all of it for a single
/// render.
///
/// Memory belongs to the process, so all pipelines of a process share one budget unless they are given others.
public final class MemoryBudget: Sendable {
    /// The shared budget of this process: half of the memory of the machine or the control group, but at least 512 MiB.
    public static let process = MemoryBudget(bytes: max(512 << 20, MachineMemory.limit / 2))

    /// Current usage of a budget.
    struct Counts: Sendable, Equatable {
        /// Bytes acquired.
        var bytesInUse = 0
        /// Renders that are waiting now.
        var waiting = 0
        /// Renders that have had to wait since the start.
        var waited = 0
    }

    /// Capacity, in bytes.
    package let bytes: Int
    private let state: Mutex<State>

    /// - Parameter bytes: Capacity that can be acquired at a time.
    public init(bytes: Int) {
        self.bytes = bytes
        state = Mutex(State(bytes: bytes))
    }

    var counts: Counts { state.withLock { $0.counts } }

    /// Acquires memory if it is available and no other render waits for it; otherwise the caller must call `acquire`.
    ///
    /// - Throws: `.tooCostly` if the cost exceeds the capacity.
    package func tryAcquire(_ cost: RenderCost) throws(ImageError) -> Bool {
        try check(cost)
        return state.withLock { $0.tryAcquire(cost) }
    }

    /// Suspends until memory is available and acquires it. The caller must call `release` after each success.
    ///
    /// - Throws: `.tooCostly` if the cost exceeds the capacity; `.cancelled` if the task was cancelled while it waited.
    package func acquire(_ cost: RenderCost) async throws(ImageError) {
        try check(cost)
        let id = state.withLock { $0.nextID() }
        let start = ContinuousClock.now
        defer { QueueWaitRecorder.current?.waited(since: start, forMemory: true) }
        let wasAdmitted = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = state.withLock { state -> Bool? in
                    if Task.isCancelled { return false }
                    if state.tryAcquire(cost) { return true }
                    state.wait(.init(id: id, cost: cost, continuation: continuation))
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let (cancelled, admitted) = state.withLock { state in (state.remove(id), state.admit()) }
            cancelled?.resume(returning: false)
            for continuation in admitted { continuation.resume(returning: true) }
        }
        guard wasAdmitted else {
            throw ImageError(.cancelled, "cancelled while waiting for memory.")
        }
    }

    /// Releases acquired memory and resumes waiters that now fit.
    package func release(_ cost: RenderCost) {
        let admitted = state.withLock { $0.release(cost) }
        for continuation in admitted { continuation.resume(returning: true) }
    }

    private func check(_ cost: RenderCost) throws(ImageError) {
        guard cost.bytes > bytes else { return }
        throw ImageError(
            .tooCostly,
            "about \((cost.bytes >> 20) + 1) MiB of memory would be needed; this process may take \(bytes >> 20) MiB."
        )
    }
}

extension MemoryBudget {
    private struct Waiter {
        let id: Int
        let cost: RenderCost
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        let bytes: Int
        var counts = Counts()
        private var bufferedBytes = 0
        private var streamed: [Waiter] = []
        private var buffered: [Waiter] = []
        private var lastID = 0
        /// How often one queue has been served while the head of the other waited for memory.
        private var overtaken = 0

        /// At this count, the other queue pauses until the waiting head has been served, so that it cannot starve.
        private static let overtakingLimit = 64

        init(bytes: Int) { self.bytes = bytes }

        mutating func nextID() -> Int {
            lastID += 1
            return lastID
        }

        mutating func tryAcquire(_ cost: RenderCost) -> Bool {
            let (own, other) = cost.isBuffered ? (buffered, streamed) : (streamed, buffered)
            guard own.isEmpty, hasPlace(cost), other.isEmpty || overtaken < Self.overtakingLimit else { return false }
            if !other.isEmpty { overtaken += 1 }
            use(cost)
            return true
        }

        mutating func wait(_ waiter: Waiter) {
            if waiter.cost.isBuffered { buffered.append(waiter) } else { streamed.append(waiter) }
            counts.waiting += 1
            counts.waited += 1
        }

        mutating func remove(_ id: Int) -> CheckedContinuation<Bool, Never>? {
            for line in [\State.streamed, \State.buffered] {
                guard let index = self[keyPath: line].firstIndex(where: { $0.id == id }) else { continue }
                counts.waiting -= 1
                return self[keyPath: line].remove(at: index).continuation
            }
            return nil
        }

        mutating func release(_ cost: RenderCost) -> [CheckedContinuation<Bool, Never>] {
            counts.bytesInUse -= cost.bytes
            if cost.isBuffered { bufferedBytes -= cost.bytes }
            return admit()
        }

        /// Admits every waiter that fits. Of the two queue heads, the older one goes first.
        mutating func admit() -> [CheckedContinuation<Bool, Never>] {
            var admitted: [CheckedContinuation<Bool, Never>] = []
            while let waiter = next() {
                counts.waiting -= 1
                use(waiter.cost)
                admitted.append(waiter.continuation)
            }
            return admitted
        }

        private mutating func next() -> Waiter? {
            let heads = [streamed.first, buffered.first].compactMap { $0 }.sorted { $0.id < $1.id }
            guard let first = heads.first else { return nil }
            if hasPlace(first.cost) {
                overtaken = 0
                return removeFirst(of: first.cost)
            }
            guard heads.count == 2, overtaken < Self.overtakingLimit, hasPlace(heads[1].cost) else { return nil }
            overtaken += 1
            return removeFirst(of: heads[1].cost)
        }

        private mutating func removeFirst(of cost: RenderCost) -> Waiter {
            cost.isBuffered ? buffered.removeFirst() : streamed.removeFirst()
        }

        private mutating func use(_ cost: RenderCost) {
            counts.bytesInUse += cost.bytes
            if cost.isBuffered { bufferedBytes += cost.bytes }
        }

        private func hasPlace(_ cost: RenderCost) -> Bool {
            if counts.bytesInUse + cost.bytes > bytes { return false }
            return !cost.isBuffered || bufferedBytes == 0 || bufferedBytes + cost.bytes <= bytes / 2
        }
    }
}
