/// How work ended for one who waited for it.
struct WorkOutcome<Value: Sendable>: Sendable {
    let result: Result<Value, ImagePipeline.Error>
    /// Whether the work was done on somebody else's account.
    let wasCoalesced: Bool

    static var cancelled: WorkOutcome {
        WorkOutcome(
            result: .failure(ImagePipeline.Error(.cancelled, "Cancelled while waiting for shared work.")),
            wasCoalesced: false
        )
    }
}
