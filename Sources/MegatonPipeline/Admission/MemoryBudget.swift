/// Memory that the renders of a process share. Renders wait for it by priority, then first come, first served, in two
/// queues: one for sources decoded row by row, and one for sources that are buffered whole. The second queue gets half
/// of the memory, or all of it for a single render.
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

    /// Decides about the memory, together with the render slots of the pipelines that share it.
    let admission: RenderAdmission

    /// - Parameter bytes: Capacity that can be acquired at a time.
    public init(bytes: Int) { admission = RenderAdmission(bytes: bytes) }

    /// Capacity, in bytes.
    package var bytes: Int { admission.bytes }

    var counts: Counts { admission.counts }

    /// Bytes that are acquired now, and the renders that wait for memory.
    package var usage: (bytesInUse: Int, waiting: Int) {
        let counts = counts
        return (counts.bytesInUse, counts.waiting)
    }

    /// Acquires memory alone if it is available and no other render waits for it; otherwise the caller must call
    /// `acquire`.
    ///
    /// - Throws: `.tooCostly` if the cost exceeds the capacity.
    func tryAcquire(_ cost: RenderCost) throws(ImageError) -> Bool {
        try admission.check(cost)
        // Behind all waiters, as if it were the youngest of the least urgent ones.
        return admission.tryAcquire(
            RenderAdmission.Request(number: .max, queue: RenderAdmission.withoutSlot, cost: cost, priority: .veryLow)
        )
    }

    /// Suspends until memory is available and acquires it, without a render slot. The caller must call `release` after
    /// each success.
    ///
    /// - Parameter priority: `.veryHigh` if requests of any priority may wait for the caller.
    /// - Throws: `.tooCostly` if the cost exceeds the capacity; `.cancelled` if the task was cancelled while it waited.
    func acquire(_ cost: RenderCost, priority: WorkPriority = .normal) async throws(ImageError) {
        try admission.check(cost)
        try await admission.acquireMemory(
            for: RenderAdmission.Request(
                number: admission.nextNumber(),
                queue: RenderAdmission.withoutSlot,
                cost: cost,
                priority: priority
            )
        )
    }

    /// Releases acquired memory and resumes waiters that can start now.
    func release(_ cost: RenderCost) { admission.release(queue: RenderAdmission.withoutSlot, cost) }
}
