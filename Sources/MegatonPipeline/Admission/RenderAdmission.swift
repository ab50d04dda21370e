import Synchronization

/// Admits renders to render threads and memory in one step. It alone decides which render starts next, with one lock
/// over the memory of a `MemoryBudget` and the render slots of all pipelines that share it.
///
/// A request names everything that it needs: a slot of its pipeline, memory, or both. It is granted all of that at
/// once, or waits and holds nothing. So no two waiters can each hold one of the two and wait for the other, and neither
/// slots nor memory are idle because their holder waits.
///
/// - A render acquires a slot alone, reads the header, and then needs memory too. It gets it at once, or gives the slot
///   back and waits for both. It keeps its number meanwhile, so that it continues before younger renders begin.
/// - Waiters of a line are ordered by priority, then by arrival. As in `TaskQueue`, one whose priority rises goes
///   behind those of its new level, one whose priority falls goes ahead of them, and there is no aging. The first
///   waiters of the lines are ordered by priority, then by number; a rise of the priority makes a waiter the youngest
///   until the end of this wait.
/// - Each pipeline has three lines of waiters: for a slot alone, and for memory to stream or to buffer the source in.
///   A waiter for memory that does not fit yet stops those behind it in its line, in all pipelines, but not the other
///   line. If all slots of its pipeline are in use, it stops no others.
/// - So the first waiter for memory of a pipeline can be overtaken: 64 times by requests behind it. After that, the
///   last free slot of its pipeline is kept for it; as soon as there is one, the memory that it needs is kept too. So
///   neither large renders nor those of a busy pipeline starve. A suspended pipeline, or one whose slots are all in
///   use, keeps no memory from others.
/// - Requests without a pipeline, such as copies of large bodies, need memory alone. Their holders must not wait for a
///   slot.
final class RenderAdmission: Sendable {
    typealias Resume = @Sendable (_ isGranted: Bool) -> Void

    /// Capacity, in bytes.
    let bytes: Int
    private let state: Mutex<State>
    private let lastNumber = Atomic(0)

    /// Queue of requests that need no slot.
    static let withoutSlot = 0

    init(bytes: Int) {
        self.bytes = bytes
        state = Mutex(State(bytes: bytes))
    }

    var counts: MemoryBudget.Counts { state.withLock { $0.counts } }

    // MARK: - Queues

    /// Adds the slots of a pipeline.
    ///
    /// - Returns: id of the queue. `removeQueue` must be called with it when no request uses the queue any more.
    func addQueue(width: Int) -> Int { state.withLock { $0.addQueue(width: width) } }

    func removeQueue(_ queue: Int) { state.withLock { $0.removeQueue(queue) } }

    func isSuspended(queue: Int) -> Bool { state.withLock { $0.isSuspended(queue) } }

    func setSuspended(_ isSuspended: Bool, queue: Int) { change { $0.setSuspended(isSuspended, queue) } }

    /// Requests of a queue that wait for a slot alone.
    func pendingCount(queue: Int) -> Int { state.withLock { $0.pendingCount(queue) } }

    /// Slots of a queue that are in use.
    func runningCount(queue: Int) -> Int { state.withLock { $0.runningCount(queue) } }

    // MARK: - Requests

    /// Number of a new request; see `Request`.
    func nextNumber() -> Int { lastNumber.add(1, ordering: .relaxed).newValue }

    /// - Throws: `.tooCostly` if the cost exceeds the capacity.
    func check(_ cost: RenderCost) throws(ImageError) {
        guard cost.bytes > bytes else { return }
        throw ImageError(
            .tooCostly,
            "about \((cost.bytes >> 20) + 1) MiB of memory would be needed; the memory of this process for renders is "
                + "\(bytes >> 20) MiB."
        )
    }

    /// Grants a request if nothing that it needs is in use, or due to a waiter before it.
    ///
    /// - Parameter holdsSlot: whether the request has its slot already, and needs only the memory.
    func tryAcquire(_ request: Request, holdsSlot: Bool = false) -> Bool {
        let (isGranted, admitted) = state.withLock { state -> (Bool, [Resume]) in
            state.grant(request, holdsSlot: holdsSlot) ? (true, state.admit()) : (false, [])
        }
        for resume in admitted { resume(true) }
        return isGranted
    }

    /// Grants a request, or adds it to the waiters and takes its slot back if it has one.
    ///
    /// - Parameter resume: called later if the request waits; with false if it is cancelled.
    /// - Returns: whether the request is granted already.
    func acquire(_ request: Request, holdsSlot: Bool = false, _ resume: @escaping Resume) -> Bool {
        let (isGranted, admitted) = state.withLock { state -> (Bool, [Resume]) in
            if state.grant(request, holdsSlot: holdsSlot) { return (true, state.admit()) }
            state.wait(request, resume)
            if !holdsSlot { return (false, []) }
            state.release(request.queue, nil)
            return (false, state.admit())
        }
        for resume in admitted { resume(true) }
        return isGranted
    }

    /// Suspends until the request is granted. If the calling task is cancelled, the request ends, and its slot is
    /// released.
    ///
    /// - Parameters:
    ///   - holdsSlot: whether the request has its slot already; it is given back during the wait.
    ///   - onWait: called if the request must wait, and can be changed.
    /// - Returns: whether the request is granted; false if it was cancelled and holds nothing.
    func acquire(_ request: Request, holdsSlot: Bool = false, onWait: () -> Void = {}) async -> Bool {
        if Task.isCancelled {
            if holdsSlot { release(queue: request.queue, nil) }
            return false
        }
        if !holdsSlot, tryAcquire(request) { return true }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isGranted = acquire(request, holdsSlot: holdsSlot) { continuation.resume(returning: $0) }
                if isGranted { return continuation.resume(returning: true) }
                onWait()
                // The handler may have been called before the request was among the waiters.
                if Task.isCancelled { cancel(request.number) }
            }
        } onCancel: {
            cancel(request.number)
        }
    }

    /// Suspends until a request for memory is granted, and records the wait.
    ///
    /// - Throws: `.cancelled` if the request was cancelled. It holds nothing then.
    func acquireMemory(
        for request: Request,
        holdsSlot: Bool = false,
        onWait: () -> Void = {}
    ) async throws(ImageError) {
        let start = ContinuousClock.now
        defer { QueueWaitRecorder.current?.waited(since: start, forMemory: true) }
        guard await acquire(request, holdsSlot: holdsSlot, onWait: onWait) else {
            throw ImageError(.cancelled, "cancelled while waiting for memory.")
        }
    }

    /// Releases everything that was granted to a request, and resumes waiters that can start now.
    func release(queue: Int, _ cost: RenderCost?) { change { $0.release(queue, cost) } }

    // MARK: - Waiters

    /// Ends a request that waits. No effect on one that does not.
    func cancel(_ number: Int) {
        let (cancelled, admitted) = state.withLock { state in (state.remove(number), state.admit()) }
        cancelled?(false)
        for resume in admitted { resume(true) }
    }

    /// Changes the priority of a request that waits, unless a change with a higher revision was made before.
    func setPriority(_ priority: WorkPriority, revision: UInt64? = nil, of number: Int) {
        change { $0.setPriority(priority, revision: revision, of: number, age: nextNumber()) }
    }

    private func change(_ transition: (inout State) -> Void) {
        let admitted = state.withLock { state in
            transition(&state)
            return state.admit()
        }
        for resume in admitted { resume(true) }
    }
}
