/// Result of work for one of its subscribers.
struct WorkOutcome<Value: Sendable>: Sendable {
    let result: Result<Value, ImageError>
    /// Whether the cost of the work was attributed to another subscriber.
    let wasCoalesced: Bool

    static var cancelled: WorkOutcome {
        WorkOutcome(
            result: .failure(ImageError(.cancelled, "Cancelled while waiting for shared work.")),
            wasCoalesced: false
        )
    }
}
