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
