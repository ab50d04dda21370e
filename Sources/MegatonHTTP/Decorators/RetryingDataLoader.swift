public import Foundation
public import FoundationNetworking
import Synchronization

/// Retries failed loads of another loader, as users of Nuke requested (nuke#665).
///
/// A request is retried only if none of its body was delivered, because delivered bytes cannot be taken back. With
/// ``Policy/holdsBody`` a body is delivered only when it is complete, so an interrupted download is retried from its
/// start.
public final class RetryingDataLoader: TimedDataLoading {
    /// When to retry, and how often.
    public struct Policy: Sendable {
        /// Maximum number of attempts, the first one included.
        public var attempts = 3
        /// Back-off before the second attempt; doubled before each later one. Its upper half is random (jitter), so
        /// that loads that failed together are not retried together.
        public var delay: Duration = .milliseconds(250)
        /// The longest wait. If an origin asks for a longer one (Retry-After), the failure is final here, and retrying
        /// is left to a caller that can wait.
        public var maximumDelay: Duration = .seconds(8)
        /// Whether bodies are held back until they are complete.
        public var holdsBody = false
        /// Whether a failure is worth a retry. Defaults to ``ImageError/isRetryable``, except for errors that
        /// waiting here does not help (`.cancelled`, `.throttled`); errors of other types are final.
        public var isRetryable: @Sendable (any Error) -> Bool = { error in
            guard let error = error as? ImageError else { return false }
            return error.isRetryable && error.code != .cancelled && error.code != .throttled
        }

        /// Creates the default policy.
        public init() {}
    }

    private let loader: any DataLoading
    private let policy: Policy
    private let clock: any Clock<Duration>
    private let chance: @Sendable () -> Double

    /// - Parameters:
    ///   - clock: measures the waits.
    ///   - chance: returns a random number in 0..<1 for the jitter.
    public init(
        _ loader: any DataLoading,
        _ policy: Policy = Policy(),
        clock: any Clock<Duration> = ContinuousClock(),
        chance: @escaping @Sendable () -> Double = { .random(in: 0..<1) }
    ) {
        self.loader = loader
        self.policy = policy
        self.clock = clock
        self.chance = chance
    }

    /// Timings are those of the last attempt.
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let relay = RelayedLoad(
            .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
        )
        // RFC 9110 section 9.2.2: only idempotent methods are retried.
        let isIdempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].contains(
            (request.httpMethod ?? "GET").uppercased()
        )
        attempt(1, of: isIdempotent ? policy.attempts : 1, request, relay)
        return relay
    }

    private struct Body {
        var held: [(Data, URLResponse)] = []
        var isHandedOver = false
        var timings: LoadTimings?
    }

    private final class Attempt: Sendable {
        let body = Mutex(Body())
    }

    private func attempt(_ number: Int, of limit: Int, _ request: URLRequest, _ relay: RelayedLoad) {
        let (attempt, holdsBody) = (Attempt(), policy.holdsBody)
        relay.begin {
            loader.timedLoad(
                with: request,
                didReceiveData: { data, response in
                    attempt.body.withLock { body in
                        if holdsBody { body.held.append((data, response)) } else { body.isHandedOver = true }
                    }
                    if !holdsBody { relay.receive(data, response) }
                },
                didCollect: { timings in attempt.body.withLock { $0.timings = timings } },
                completion: { [self] error in
                    let body = attempt.body.withLock { $0 }
                    if let error, number < limit, !body.isHandedOver,
                        let wait = policy.wait(after: error, number, chance: chance())
                    {
                        relay.run { [self] in
                            do {
                                try await clock.sleep(for: wait)
                            } catch {
                                return  // The caller has cancelled: no closure is called any more.
                            }
                            self.attempt(number + 1, of: limit, request, relay)
                        }
                        return
                    }
                    if error == nil {
                        for (data, response) in body.held { relay.receive(data, response) }
                    }
                    relay.complete(error, body.timings)
                }
            )
        }
    }
}

extension RetryingDataLoader.Policy {
    /// Wait before the next attempt; nil if the failure is final.
    ///
    /// - Parameters:
    ///   - number: of the attempt that has failed, from 1.
    ///   - chance: a random number in 0..<1 for the jitter.
    func wait(after error: any Error, _ number: Int, chance: Double) -> Duration? {
        guard isRetryable(error) else { return nil }
        let doubled = delay * (1 << min(number - 1, 16))
        let wait = min(doubled, maximumDelay) * (0.5 + chance / 2)
        guard let wanted = (error as? ImageError)?.retryAfter else { return wait }
        guard wanted <= maximumDelay.inSeconds else { return nil }
        return max(wait, .seconds(wanted))
    }
}

extension RetryingDataLoader: SecurityRelaxationReporting {
    package var securityRelaxations: [String] {
        (loader as? any SecurityRelaxationReporting)?.securityRelaxations ?? []
    }
}

extension RetryingDataLoader: LoadLimitDeclaring {
    package var loadLimits: DataLoader.Configuration? { (loader as? any LoadLimitDeclaring)?.loadLimits }
}
