/// Effects of a change of a node's state, performed in order and with no lock held.
enum WorkAction: Sendable {
    case setPriority(WorkLink, WorkPriority, revision: UInt64)
    case cancel(WorkLink)
    case cancelTask(Task<Void, Never>)
    case call(@Sendable () -> Void)
    case deliver
    /// Only releases the value: its deinitializer may run foreign code, which must not happen inside a lock.
    case release(any Sendable)
}
