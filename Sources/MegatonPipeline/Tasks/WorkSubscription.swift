/// Subscription to a unit of work. Its methods can be called at any time and from any thread; after the end they have
/// no effect. Releasing it does not end the subscription: call `cancel`.
struct WorkSubscription: Sendable {
    let node: any WorkSubscribable
    let id: Int
    /// Called by `cancel`, for a caller that waits for a final event, which will not come.
    var onCancel: @Sendable () -> Void = {}

    /// Ends the subscription. The work ends with its last subscriber. No event is delivered to the observer after this,
    /// except one that another thread is just delivering.
    func cancel() {
        node.leave(id)
        onCancel()
    }

    /// Changes the priority. The work, and everything it depends on, has the highest priority of its subscribers.
    func setPriority(_ priority: WorkPriority) { node.setPriority(priority, revision: nil, of: id) }

    /// Changes the priority, unless a change with a higher revision was made before.
    func setPriority(_ priority: WorkPriority, revision: UInt64) {
        node.setPriority(priority, revision: revision, of: id)
    }

    /// Whether an earlier subscriber waits for the same work, or did so at its end.
    var wasCoalesced: Bool { node.wasCoalesced(id) }
}

/// A node as its subscribers see it, without the type of its value.
protocol WorkSubscribable: AnyObject, Sendable {
    func leave(_ id: Int)
    func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int)
    func wasCoalesced(_ id: Int) -> Bool
}

/// Events that a node of the task graph sends to its subscribers.
enum WorkEvent<Value: Sendable>: Sendable {
    /// A result. With `isCompleted: false`, a better one will follow.
    case value(Value, isCompleted: Bool)
    /// Progress in units of the work's choice, mostly bytes; `total` is 0 while it is not known.
    case progress(completed: Int64, total: Int64)
    case failure(ImageError)

    /// Result of the work, if this event ends it.
    var result: Result<Value, ImageError>? {
        switch self {
        case .value(let value, isCompleted: true): .success(value)
        case .failure(let error): .failure(error)
        case .value, .progress: nil
        }
    }

    /// Whether this event makes an earlier one obsolete.
    func supersedes(_ earlier: WorkEvent) -> Bool {
        switch (earlier, self) {
        case (.progress, .progress), (.value(_, isCompleted: false), .value): true
        default: false
        }
    }
}

/// Receives the events of a node: one at a time, in order, with no lock held, on the thread of the sender or of a
/// concurrent sender. It must not block. `wasCoalesced` is false for the first subscriber that still waits: the cost of
/// the work is attributed to it.
typealias WorkObserver<Value: Sendable> = @Sendable (_ event: WorkEvent<Value>, _ wasCoalesced: Bool) -> Void

/// Result of work for one of its subscribers.
struct WorkOutcome<Value: Sendable>: Sendable {
    let result: Result<Value, ImageError>
    /// Whether the cost of the work was attributed to another subscriber.
    let wasCoalesced: Bool

    static var cancelled: WorkOutcome {
        WorkOutcome(
            result: .failure(ImageError(.cancelled, "The request was cancelled while it waited for shared work.")),
            wasCoalesced: false
        )
    }
}
