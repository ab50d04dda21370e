/// Work that waits for other work: it receives the progress, and determines the priority. Erases the type of
/// `WorkContext`, as loads and renders serve several kinds of work.
protocol WorkParent: Sendable {
    /// See `WorkContext`.
    func outcome<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void
    ) async -> WorkOutcome<Other>

    /// See `WorkContext`.
    func perform<Result: Sendable>(
        on queue: TaskQueue,
        _ work: @escaping @Sendable () async throws(ImageError) -> Result
    ) async throws(ImageError) -> Result
}

extension WorkContext: WorkParent {}
