/// Work that waits for other work: it is told the progress, and gives its priority. Of any kind, as a load serves several.
protocol WorkParent: Sendable {
    /// As `WorkContext` has it.
    func outcome<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void
    ) async -> WorkOutcome<Other>
}

extension WorkContext: WorkParent {}
