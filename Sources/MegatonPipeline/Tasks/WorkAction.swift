/// What is to be done after a change of a node's state, in this order and with no lock held.
enum WorkAction: Sendable {
    case setPriority(WorkLink, WorkPriority, revision: UInt64)
    case cancel(WorkLink)
    case cancelTask(Task<Void, Never>)
    case call(@Sendable () -> Void)
    case deliver
    /// Nothing but to let go of it: what is freed may run code of others, which must not happen inside a lock.
    case release(any Sendable)
}
