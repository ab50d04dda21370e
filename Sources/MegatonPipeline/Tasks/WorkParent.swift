/// Work that waits for other work: it is told the progress, and gives its priority. Of any kind, as loads and renders
/// serve several.
protocol WorkParent: Sendable {
    /// As `WorkContext` has it.
    func outcome<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void
    ) async -> WorkOutcome<Other>

    /// As `WorkContext` has it.
    func perform<Result: Sendable>(
        on queue: TaskQueue,
        _ work: @escaping @Sendable () async throws(ImagePipeline.Error) -> Result
    ) async throws(ImagePipeline.Error) -> Result
}

extension WorkContext: WorkParent {}
