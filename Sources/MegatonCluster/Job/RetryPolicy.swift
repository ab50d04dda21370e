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
    /// never subtracted: a Retry-After is kept. To one of those, at most 30 seconds are added.
    public var jitter = 0.5
    /// Longest Retry-After that a job waits for; if its origin asks for more, the job fails at once.
    public var maximumWait: Duration = .seconds(3600)

    /// Whether a job whose outputs the disk does not take waits for another worker, instead of failing at once.
    var waitsForDisk = false

    /// Creates the default policy.
    public init() {}

    /// Seconds before a job that only waited for others tries again.
    private static let freePause = 0.05
    /// The same for one that found a worker's disk full: longer than other workers take to claim it.
    private static let diskPause = 1.0
    /// Attempts that did not count after which such a job fails: a full quota of its own outputs must not stop one
    /// worker after the other for ever.
    private static let freeLimit = 100
    private static let brokenLimit = 5
    /// Maximum jitter that is added to a Retry-After: the limits of the host spread the jobs further.
    private static let longestSpread: Duration = .seconds(30)

    /// Whether the attempt does not count, as the job itself did not fail: it waited too long, was throttled, or is for
    /// a worker with room on its disk.
    ///
    /// - Parameter free: attempts of the job so far that did not count.
    func isFree(_ error: ImagePipeline.Error, free: Int = 0) -> Bool {
        error.code == .waitTimedOut || error.code == .throttled || isForOthers(error, free: free)
    }

    /// Whether another worker may write the outputs that this one cannot. A full directory for downloads is a failure
    /// that counts: a large source may have filled it.
    func isForOthers(_ error: ImagePipeline.Error, free: Int) -> Bool {
        // A full disk may get room; a directory that is mounted read-only everywhere is an error of the jobs.
        waitsForDisk && error.isOfStorage && free < (error.code == .diskFull ? Self.freeLimit : Self.brokenLimit)
    }

    /// The delay after an attempt (1 is the first); nil if the error is permanent or the attempts are used up. An
    /// attempt that does not count has its own delay, which ends when the job's turn has come.
    ///
    /// - Parameters:
    ///   - free: attempts of the job so far that did not count.
    ///   - random: 0 to 1.
    package func delay(
        after attempt: Int,
        of attempts: Int,
        error: ImagePipeline.Error,
        free: Int = 0,
        random: Double = .random(in: 0...1)
    ) -> Duration? {
        if asksForTooLong(error) { return nil }
        if isFree(error, free: free) {
            let pause = error.isOfStorage ? Self.diskPause : Self.freePause
            return .seconds(max(pause, error.retryAfter ?? 0) * (1 + 0.1 * random))
        }
        guard error.isRetryable, attempt < attempts else { return nil }
        let (own, asked) = (shortestDelay(after: attempt), Duration.seconds(error.retryAfter ?? 0))
        let spread = asked > own ? min(asked * jitter, Self.longestSpread) : own * jitter
        return max(own, asked) + spread * random
    }

    /// Whether an origin asks for a longer delay than a job waits.
    func asksForTooLong(_ error: ImagePipeline.Error) -> Bool {
        error.requestedDelay.map { .seconds($0) > maximumWait } ?? false
    }

    /// The shortest time between the end of an attempt that counts (1 is the first) and the start of the next one.
    func shortestDelay(after attempt: Int) -> Duration { min(cap, base * (1 << min(max(attempt - 1, 0), 20))) }
}
