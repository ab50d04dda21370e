internal import Foundation
package import MegatonPipeline

/// Retry policy of failed attempts: exponential back-off with jitter.
///
/// It delays jobs; reconnections to Redis have a back-off of their own.
public struct RetryPolicy: Sendable, Equatable {
    /// The first delay; it doubles with each attempt.
    public var base: Duration = .seconds(2)
    /// The longest delay, before jitter.
    public var cap: Duration = .seconds(600)
    /// Maximum jitter, as a part of the delay, so that jobs that failed together are not retried together. It is added,
    /// never subtracted: a Retry-After is kept.
    public var jitter = 0.5
    /// Longest Retry-After that a job waits for; if its origin asks for more, the job fails at once.
    public var maximumWait: Duration = .seconds(3600)

    /// Creates the default policy.
    public init() {}

    /// Seconds before a job that only waited for others tries again.
    private static let freePause = 0.05

    /// Whether the attempt does not count, as the job itself did not fail: it waited too long, or was throttled.
    static func isFree(_ error: ImagePipeline.Error) -> Bool {
        error.code == .waitTimedOut || error.code == .throttled
    }

    /// The delay after an attempt (1 is the first); nil if the error is permanent or the attempts are used up. An
    /// attempt that does not count has its own delay, which ends when the job's turn has come.
    ///
    /// - Parameter random: 0 to 1.
    package func delay(
        after attempt: Int,
        of attempts: Int,
        error: ImagePipeline.Error,
        random: Double = .random(in: 0...1)
    ) -> Duration? {
        if asksForTooLong(error) { return nil }
        if Self.isFree(error) { return .seconds(max(Self.freePause, error.retryAfter ?? 0) * (1 + 0.1 * random)) }
        guard error.isRetryable, attempt < attempts else { return nil }
        let asked = Duration.seconds(error.retryAfter ?? 0)
        return max(shortestDelay(after: attempt), asked) * (1 + jitter * random)
    }

    /// Whether an origin asks for a longer delay than a job waits.
    func asksForTooLong(_ error: ImagePipeline.Error) -> Bool {
        error.requestedDelay.map { .seconds($0) > maximumWait } ?? false
    }

    /// The shortest time between the end of an attempt that counts (1 is the first) and the start of the next one.
    func shortestDelay(after attempt: Int) -> Duration { min(cap, base * (1 << min(max(attempt - 1, 0), 20))) }
}
