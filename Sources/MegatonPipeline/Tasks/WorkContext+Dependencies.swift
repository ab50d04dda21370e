extension WorkContext {
    /// Subscribes this node to another one, which takes on its priority, and waits for its end. Its progress becomes this
    /// one's; it is left when this one ends.
    ///
    /// - Parameter onPartial: is told what comes before the last value.
    /// - Returns: the outcome; `.cancelled` if this node ends before, or the calling task is cancelled.
    func outcome<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void = { _ in }
    ) async -> WorkOutcome<Other> {
        guard let link = node.reserveLink() else { return .cancelled }
        defer { node.removeLink(link) }
        return await pool.outcome(for: key, priority: priority, job: job) { subscription in
            node.attach(WorkLink(subscription), to: link)
        } observer: { [node] event in
            switch event {
            case .value(let value, _): onPartial(value)
            case .progress(let completed, let total): node.send(.progress(completed: completed, total: total))
            case .failure: break
            }
        }
    }

    /// The last value of another node, as `outcome` gives it.
    ///
    /// - Throws: the other's error; `.cancelled` if this node ends before, or the calling task is cancelled.
    func value<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void = { _ in }
    ) async throws(ImagePipeline.Error) -> Other {
        try await outcome(of: pool, key: key, job: job, onPartial: onPartial).result.get()
    }
}
