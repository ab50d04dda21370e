/// What a node of the task graph tells its subscribers.
enum WorkEvent<Value: Sendable>: Sendable {
    /// A result, or with `isCompleted: false` one that a better one will follow.
    case value(Value, isCompleted: Bool)
    /// Units of the work's choice, bytes mostly; `total` is 0 while it is not known.
    case progress(completed: Int64, total: Int64)
    case failure(ImagePipeline.Error)

    /// The end of the work, if this event is it.
    var result: Result<Value, ImagePipeline.Error>? {
        switch self {
        case .value(let value, isCompleted: true): .success(value)
        case .failure(let error): .failure(error)
        case .value, .progress: nil
        }
    }

    /// Whether this event says what the other said, only later.
    func supersedes(_ earlier: WorkEvent) -> Bool {
        switch (earlier, self) {
        case (.progress, .progress), (.value(_, isCompleted: false), .value): true
        default: false
        }
    }
}

/// Is told the events of a node: one at a time, in their order, with no lock held, on the thread of whoever caused
/// them. It must not block. `wasCoalesced` is false for the first of those who still wait: the work is done on his
/// account.
typealias WorkObserver<Value: Sendable> = @Sendable (_ event: WorkEvent<Value>, _ wasCoalesced: Bool) -> Void
