extension TaskQueue {
    /// Something enqueued. All of it can be called at any time, also after its end, where it does nothing.
    struct Operation: Sendable {
        let queue: TaskQueue
        let id: Int

        /// Moves it within the queue; of no effect once it has begun.
        func setPriority(_ priority: WorkPriority) { queue.setPriority(priority, revision: nil, of: id) }

        /// Changes the priority unless a change with a higher revision has come before.
        func setPriority(_ priority: WorkPriority, revision: UInt64) {
            queue.setPriority(priority, revision: revision, of: id)
        }

        /// Before it has begun: it never will, and leaves the queue. After that: cancels its Swift task.
        func cancel() { queue.cancel(id) }
    }
}
