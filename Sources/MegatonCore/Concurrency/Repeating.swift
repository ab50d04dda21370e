/// Runs `round` at an interval until the task is cancelled: a heartbeat, a sweep, a poll. The interval counts from the
/// end of a round.
///
/// Cancellation ends the loop as it ends `repeating`, the same loop with pauses that vary.
///
/// - Parameters:
///   - startsAtOnce: whether the first round comes at once, or after an interval.
///   - endsWithRound: see `repeating`.
package func every(
    _ interval: Duration,
    startsAtOnce: Bool = true,
    endsWithRound: Bool = false,
    clock: any Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation,
    round: () async -> Void
) async {
    await repeating(after: startsAtOnce ? .zero : interval, endsWithRound: endsWithRound, clock: clock) {
        await round()
        return interval
    }
}

/// Runs rounds until the task is cancelled; each returns the pause before the next one, or nil to end the loop.
///
/// Cancellation ends a pause at once, and no round follows it. A round that is running is not interrupted: it sees that
/// its task is cancelled, and is the last one.
///
/// - Parameters:
///   - pause: the pause before the first round.
///   - endsWithRound: whether a last round follows a pause that was ended by cancellation, for work that is not to be
///     left undone.
package func repeating(
    after pause: Duration = .zero,
    endsWithRound: Bool = false,
    clock: any Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation,
    round: () async -> Duration?
) async {
    var next: Duration? = pause
    while let pause = next, !Task.isCancelled {
        if pause > .zero { try? await clock.sleep(for: pause) }  // Throws only if the task is cancelled.
        if Task.isCancelled && !endsWithRound { return }
        next = await round()
    }
}

extension AsyncSignal {
    /// Runs `work` after each signal until the task is cancelled, once at a time. Signals that arrive meanwhile count
    /// as one.
    ///
    /// - Parameters:
    ///   - work: not run any more once the task is cancelled.
    ///   - pauseAfter: returns the pause after an error of `work`, which cancellation ends at once.
    ///   - done: called after `work`, and after the pause if there is one.
    package func serve(
        clock: any Clock<Duration> = ContinuousClock(),
        isolation: isolated (any Actor)? = #isolation,
        work: () async throws -> Void,
        pauseAfter: (any Error) -> Duration,
        done: () -> Void
    ) async {
        await repeating(clock: clock) {
            await wait()
            if Task.isCancelled { return nil }
            do {
                try await work()
            } catch {
                try? await clock.sleep(for: pauseAfter(error))  // Throws only if the task is cancelled.
            }
            done()
            return .zero
        }
    }
}
