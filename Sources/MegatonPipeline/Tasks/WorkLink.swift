/// Something that a node needs to get its work done: it takes on the node's priority and ends with the node.
struct WorkLink: Sendable {
    enum Kind: Sendable {
        /// Another node; of no use any more once this one has ended, in whichever way.
        case dependency
        /// A piece of work of this node in a queue; when the node ends by itself it may be the very one that reports.
        case operation
    }

    let kind: Kind
    /// Changes come from several threads and may overtake each other: the one with the highest revision counts.
    let setPriority: @Sendable (_ priority: WorkPriority, _ revision: UInt64) -> Void
    let cancel: @Sendable () -> Void
}

extension WorkLink {
    init(_ subscription: WorkSubscription) {
        self.init(kind: .dependency) {
            subscription.setPriority($0, revision: $1)
        } cancel: {
            subscription.cancel()
        }
    }

    init(_ operation: TaskQueue.Operation) {
        self.init(kind: .operation) {
            operation.setPriority($0, revision: $1)
        } cancel: {
            operation.cancel()
        }
    }
}
