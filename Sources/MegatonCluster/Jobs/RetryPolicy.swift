internal import Foundation
public import MegatonPipeline

/// When a failed attempt is repeated.
public struct RetryPolicy: Sendable, Equatable {
    /// The first delay; it doubles with each attempt.
    public var base: Duration = .seconds(2)
    /// The longest delay before what is random is added.
    public var cap: Duration = .seconds(600)
    /// Up to this part of the delay is added at random, so that jobs which failed together do not come back together.
    /// Added, never taken away: a Retry-After is kept.
    public var jitter = 0.5
    /// A job whose origin asks not to be asked again for longer (Retry-After) fails at once.
    public var maximumWait: Duration = .seconds(3600)

    public init() {}

    /// Seconds before a job that only waited for others looks again.
    private static let freePause = 0.05

    /// Whether it was not the job's fault that it was not done, so that the attempt does not count.
    static func isFree(_ error: ImagePipeline.Error) -> Bool {
        error.code == .waitTimedOut || error.code == .throttled
    }

    /// The delay after an attempt (1 is the first), or nil where the error is for good or the attempts are used up.
    /// One that does not count has its own: it ends when its turn has come.
    ///
    /// - Parameter random: 0 to 1.
    public func delay(
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

    /// Whether an origin asks not to be asked again for longer than a job waits.
    func asksForTooLong(_ error: ImagePipeline.Error) -> Bool {
        error.requestedDelay.map { .seconds($0) > maximumWait } ?? false
    }

    /// The least time between the end of an attempt that counts (1 is the first) and the next one's start.
    func shortestDelay(after attempt: Int) -> Duration { min(cap, base * (1 << min(max(attempt - 1, 0), 20))) }
}
