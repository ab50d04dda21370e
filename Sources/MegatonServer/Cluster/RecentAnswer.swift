/// The answer to a question that many clients ask, and that costs Redis something: asked at most once in a time,
/// however many ask. A failure is an answer too, which holds as long.
///
/// Clients wait for the question that is asked now, also those that come after its beginning.
actor RecentAnswer<Value: Sendable> {
    private let interval: Duration
    private let question: @Sendable () async -> Value
    private var last: (value: Value, at: ContinuousClock.Instant)?
    /// The question that is asked now, for whose answer later clients wait.
    private var asking: Task<Value, Never>?

    /// - Parameters:
    ///   - interval: shortest time between two questions.
    ///   - question: must end by itself, within a limit.
    init(every interval: Duration, _ question: @escaping @Sendable () async -> Value) {
        self.interval = interval
        self.question = question
    }

    /// The answer, which is at most as old as the interval.
    func value() async -> Value {
        if let last, last.at.duration(to: .now) < interval { return last.value }
        if let asking { return await asking.value }
        // Unstructured, as clients at the same time share it: one that gives up must not end it for the others. It is
        // safe because it ends by itself, and touches no state of this actor.
        let task = Task { [question] in await question() }
        asking = task
        let value = await task.value
        (asking, last) = (nil, (value, .now))
        return value
    }
}
