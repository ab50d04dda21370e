import Synchronization

/// Admits work by the memory that it will take, first come first served in two lines: one for what is decoded row by
/// row, and one for what has to be held as a whole, which gets half of the memory, or all of it for a single piece of
/// work.
///
/// Memory belongs to a process, so that there is one budget for all pipelines in it, unless they are given others.
public final class MemoryBudget: Sendable {
    /// What the work of this process may take: half of the memory that the machine or the control group has, but 512
    /// MiB at the least.
    public static let process = MemoryBudget(bytes: max(512 << 20, MachineMemory.limit / 2))

    /// How things stand.
    public struct Counts: Sendable, Equatable {
        /// Bytes that are taken.
        public var bytesInUse = 0
        /// Those who wait now.
        public var waiting = 0
        /// Those who ever had to wait.
        public var waited = 0
    }

    /// Bytes.
    public let bytes: Int
    private let state: Mutex<State>

    /// - Parameter bytes: that may be taken at a time.
    public init(bytes: Int) {
        self.bytes = bytes
        state = Mutex(State(bytes: bytes))
    }

    public var counts: Counts { state.withLock { $0.counts } }

    /// Takes memory if there is some and nobody is waiting for it; else the caller has to `take`.
    ///
    /// - Throws: `.tooCostly`: there will never be so much.
    func takeIfFree(_ cost: RenderCost) throws(ImagePipeline.Error) -> Bool {
        try check(cost)
        return state.withLock { $0.takeIfFree(cost) }
    }

    /// Takes memory as soon as it is this one's turn. Each success is followed by `give`.
    ///
    /// - Throws: `.tooCostly`; `.cancelled` where the task was cancelled while it waited.
    func take(_ cost: RenderCost) async throws(ImagePipeline.Error) {
        try check(cost)
        let id = state.withLock { $0.nextID() }
        let start = ContinuousClock.now
        defer { QueueAccount.current?.waited(since: start, forMemory: true) }
        let wasAdmitted = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = state.withLock { state -> Bool? in
                    if Task.isCancelled { return false }
                    if state.takeIfFree(cost) { return true }
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
            throw ImagePipeline.Error(.cancelled, "cancelled while waiting for memory.")
        }
    }

    /// Gives back what was taken.
    func give(_ cost: RenderCost) {
        let admitted = state.withLock { $0.give(cost) }
        for continuation in admitted { continuation.resume(returning: true) }
    }

    private func check(_ cost: RenderCost) throws(ImagePipeline.Error) {
        guard cost.bytes > bytes else { return }
        throw ImagePipeline.Error(
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
        private var dearBytes = 0
        private var cheap: [Waiter] = []
        private var dear: [Waiter] = []
        private var lastID = 0
        /// How often one line has gone on while the other's first one had to wait for memory.
        private var overtaken = 0

        /// After so many the other line stops until the one who waits has been served.
        private static let overtakingLimit = 64

        init(bytes: Int) { self.bytes = bytes }

        mutating func nextID() -> Int {
            lastID += 1
            return lastID
        }

        mutating func takeIfFree(_ cost: RenderCost) -> Bool {
            let (own, other) = cost.isDear ? (dear, cheap) : (cheap, dear)
            guard own.isEmpty, hasPlace(cost), other.isEmpty || overtaken < Self.overtakingLimit else { return false }
            if !other.isEmpty { overtaken += 1 }
            use(cost)
            return true
        }

        mutating func wait(_ waiter: Waiter) {
            if waiter.cost.isDear { dear.append(waiter) } else { cheap.append(waiter) }
            counts.waiting += 1
            counts.waited += 1
        }

        mutating func remove(_ id: Int) -> CheckedContinuation<Bool, Never>? {
            for line in [\State.cheap, \State.dear] {
                guard let index = self[keyPath: line].firstIndex(where: { $0.id == id }) else { continue }
                counts.waiting -= 1
                return self[keyPath: line].remove(at: index).continuation
            }
            return nil
        }

        mutating func give(_ cost: RenderCost) -> [CheckedContinuation<Bool, Never>] {
            counts.bytesInUse -= cost.bytes
            if cost.isDear { dearBytes -= cost.bytes }
            return admit()
        }

        /// Lets in whoever may go, the one who came first of the two lines' heads before the other.
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
            let heads = [cheap.first, dear.first].compactMap { $0 }.sorted { $0.id < $1.id }
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
            cost.isDear ? dear.removeFirst() : cheap.removeFirst()
        }

        private mutating func use(_ cost: RenderCost) {
            counts.bytesInUse += cost.bytes
            if cost.isDear { dearBytes += cost.bytes }
        }

        private func hasPlace(_ cost: RenderCost) -> Bool {
            if counts.bytesInUse + cost.bytes > bytes { return false }
            return !cost.isDear || dearBytes == 0 || dearBytes + cost.bytes <= bytes / 2
        }
    }
}
