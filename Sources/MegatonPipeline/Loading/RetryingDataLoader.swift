public import Foundation
public import FoundationNetworking
import Synchronization

/// Asks a loader again where that can help: Nuke's users wanted it (nuke#665), and a decorator is where it belongs.
///
/// A request is only made again while nothing of its body was handed over, as that cannot be taken back; with
/// ``Policy/holdsBody`` a body is handed over when it is whole, so that one that broke off is fetched again from its start.
public final class RetryingDataLoader: TimedDataLoading {
    /// When to ask again.
    public struct Policy: Sendable {
        /// Requests in all, the first one included.
        public var attempts = 3
        /// Before the second attempt; twice as much before each one after it. The upper half of it is left to chance, so
        /// that those who failed together do not come back together.
        public var delay: Duration = .milliseconds(250)
        /// The longest wait. An origin that wants more (Retry-After) is not asked again: that is for who can wait.
        public var maximumDelay: Duration = .seconds(8)
        /// Bodies are kept back until they are whole.
        public var holdsBody = false
        /// Which failures may pass. ``ImagePipeline/Error/isRetryable`` by default, but for those that no waiting here
        /// makes better (`.cancelled`, `.throttled`); errors of other types are final.
        public var isRetryable: @Sendable (any Error) -> Bool = { error in
            guard let error = error as? ImagePipeline.Error else { return false }
            return error.isRetryable && error.code != .cancelled && error.code != .throttled
        }

        public init() {}
    }

    private let loader: any DataLoading
    private let policy: Policy
    private let clock: any Clock<Duration>
    private let chance: @Sendable () -> Double

    /// - Parameters:
    ///   - clock: what the waits are measured by.
    ///   - chance: 0 up to 1, for the part of a wait that is left to it.
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

    /// The timings are the last attempt's.
    public func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        didCollect: @escaping @Sendable (LoadTimings) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        let relay = RelayedLoad(
            .init(didReceiveData: didReceiveData, didCollect: didCollect, completion: completion)
        )
        // RFC 9110 section 9.2.2: what may be done twice.
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
                    if let error, number < limit, !body.isHandedOver, let wait = wait(after: error, number) {
                        relay.run { [self] in
                            do {
                                try await clock.sleep(for: wait)
                            } catch {
                                return  // The caller has cancelled, and hears nothing more.
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

    /// How long to wait after a failure, or nil where it is final.
    private func wait(after error: any Error, _ number: Int) -> Duration? {
        guard policy.isRetryable(error) else { return nil }
        let doubled = policy.delay * (1 << min(number - 1, 16))
        let wait = min(doubled, policy.maximumDelay) * (0.5 + chance() / 2)
        guard let wanted = (error as? ImagePipeline.Error)?.retryAfter else { return wait }
        guard wanted <= policy.maximumDelay.inSeconds else { return nil }
        return max(wait, .seconds(wanted))
    }
}

extension RetryingDataLoader: WeakeningDeclaring {
    var weakenings: [String] { (loader as? any WeakeningDeclaring)?.weakenings ?? [] }
}

extension RetryingDataLoader: LoadLimitDeclaring {
    var loadLimits: DataLoader.Configuration? { (loader as? any LoadLimitDeclaring)?.loadLimits }
}
