extension WorkContext {
    /// Subscribes this node to another one and waits for its end. The other node inherits this node's priority, and its
    /// progress is forwarded to this node's subscribers. The subscription ends with this node.
    ///
    /// - Parameter onPartial: called with the values before the last one.
    /// - Returns: the outcome; `.cancelled` if this node ends first, or the calling task is cancelled.
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

    /// The last value of another node, from `outcome`.
    ///
    /// - Throws: the other node's error; `.cancelled` if this node ends first, or the calling task is cancelled.
    func value<Key: Hashable & Sendable, Other: Sendable>(
        of pool: WorkPool<Key, Other>,
        key: Key,
        job: WorkJob<Other>,
        onPartial: @escaping @Sendable (Other) -> Void = { _ in }
    ) async throws(ImageError) -> Other {
        try await outcome(of: pool, key: key, job: job, onPartial: onPartial).result.get()
    }
}
