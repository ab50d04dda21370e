/// A dependency or operation of a node: it inherits the node's priority, and ends with the node.
struct WorkLink: Sendable {
    enum Kind: Sendable {
        /// Another node. It is not needed any more once this one has ended, in any way.
        case dependency
        /// An operation of this node in a queue. If the node ends without cancellation, this may be the operation that
        /// ends it.
        case operation
    }

    let kind: Kind
    /// Changes come from several threads and may overtake each other: the highest revision counts.
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
