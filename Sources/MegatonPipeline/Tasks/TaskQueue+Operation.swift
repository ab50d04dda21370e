extension TaskQueue {
    /// Handle of an enqueued operation. Its methods can be called at any time; after the end they do nothing.
    struct Operation: Sendable {
        let queue: TaskQueue
        let id: Int

        /// Moves the operation within the queue. No effect once it has started.
        func setPriority(_ priority: WorkPriority) { queue.setPriority(priority, revision: nil, of: id) }

        /// Changes the priority, unless a change with a higher revision was made before.
        func setPriority(_ priority: WorkPriority, revision: UInt64) {
            queue.setPriority(priority, revision: revision, of: id)
        }

        /// Removes the operation from the queue if it has not started, else cancels its Swift task.
        func cancel() { queue.cancel(id) }
    }
}
