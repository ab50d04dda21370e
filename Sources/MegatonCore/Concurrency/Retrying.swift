/// Repeats `attempt` until it succeeds or fails for good, with a pause after each failure.
///
/// Cancellation ends a pause at once. With `cancellation` that error is thrown then, and no attempt follows. Without
/// one, an attempt follows and is the last, so that its own error is thrown. A running attempt is not interrupted: it
/// sees that its task is cancelled.
///
/// - Parameters:
///   - isOver: limit of the loop, evaluated after each failure; once it is true, the error is thrown.
///   - cancellation: the error to throw in place of a pause if the task is cancelled.
///   - pauseAfter: the pause after an error, or nil if the error is final and is to be thrown.
package func retrying<Value, Failure: Error>(
    until isOver: @autoclosure () -> Bool = false,
    cancellation: Failure? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation,
    attempt: () async throws(Failure) -> Value,
    pauseAfter: (Failure) -> Duration?
) async throws(Failure) -> Value {
    while true {
        do throws(Failure) {
            return try await attempt()
        } catch {
            let isLast = cancellation == nil && Task.isCancelled
            guard !isLast, !isOver(), let pause = pauseAfter(error) else { throw error }
            do {
                try await clock.sleep(for: pause)
            } catch {
                // The task is cancelled.
                if let cancellation { throw cancellation }
            }
        }
    }
}
