/// A bound on what somebody else's code takes, where others wait for it.
enum TimeLimit {
    /// What the body gives; nil where it takes longer. It is cancelled then, and whatever it gives later is dropped.
    static func run<Value: Sendable>(
        _ limit: Duration,
        _ body: @escaping @Sendable () async -> Value
    ) async -> Value? {
        let end = OneShot<Value?>()
        // Unstructured, as a group would wait for a body that does not heed its cancellation: that is what the limit is for.
        let work = Task { end.resolve(await body()) }
        // Unstructured beside it. It is cancelled as soon as there is an end, and sleeps no longer then.
        let timer = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }  // Cancelled: there is an end.
            end.resolve(nil)
        }
        let value = await end.value
        timer.cancel()
        work.cancel()
        return value
    }
}
