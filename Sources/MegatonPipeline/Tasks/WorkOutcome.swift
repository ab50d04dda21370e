/// Result of work for one of its subscribers.
struct WorkOutcome<Value: Sendable>: Sendable {
    let result: Result<Value, ImagePipeline.Error>
    /// Whether the cost of the work was attributed to another subscriber.
    let wasCoalesced: Bool

    static var cancelled: WorkOutcome {
        WorkOutcome(
            result: .failure(ImagePipeline.Error(.cancelled, "Cancelled while waiting for shared work.")),
            wasCoalesced: false
        )
    }
}
