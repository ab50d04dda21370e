/// Time limit for work that other tasks wait for.
package enum TimeLimit {
    /// Value of the body; nil if it takes longer than the limit. The body is then cancelled and waited for: it must end
    /// soon after its cancellation, as a wait does. Foreign code may not, and needs `run`.
    @discardableResult
    package static func wait<Value: Sendable>(
        atMost limit: Duration,
        clock: any Clock<Duration> = ContinuousClock(),
        for body: @escaping @Sendable () async -> Value?
    ) async -> Value? {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await body() }
            group.addTask {
                try? await clock.sleep(for: limit)  // Cancelled if there is a value.
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// Value of foreign code; nil if it takes longer than the limit. The body is then cancelled, and its value ignored.
    package static func run<Value: Sendable>(
        _ limit: Duration,
        _ body: @escaping @Sendable () async -> Value
    ) async -> Value? {
        let end = Promise<Value?>()
        // Unstructured, as a task group would wait for a body that ignores its cancellation, the very case that this
        // limits.
        let work = Task { end.resolve(await body()) }
        // Unstructured as well. It is cancelled as soon as there is a value, which ends its sleep.
        let timer = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }  // Cancelled: there is a value.
            end.resolve(nil)
        }
        let value = await end.value
        timer.cancel()
        work.cancel()
        return value
    }
}
