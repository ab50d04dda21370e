internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis

/// Reply of the script `acquirePermit`, which grants a permit or says why not.
enum PermitReply {
    /// - Parameters:
    ///   - isHealthy: whether the host is healthy and far from its limits.
    ///   - hasBegun: whether it has ever begun to answer.
    case granted(isHealthy: Bool, hasBegun: Bool)
    /// - Parameter counter: statistic that counts such refusals.
    case refused(ImagePipeline.Error, counter: String)

    init(_ reply: RedisValue, host: String, limits: HostLimits) {
        let fields = reply.array ?? []
        let refusal = Refusal(fields: fields, host: host, limits: limits)
        switch fields.first?.string {
        case "wait": self = .refused(refusal.limit, counter: "throttled")
        case "open": self = .refused(refusal.openCircuit, counter: "broken_off")
        default: self = .granted(isHealthy: refusal.number(1) == 1, hasBegun: refusal.number(2) == 1)
        }
    }

    /// The error of a request that the host does not take now.
    private struct Refusal {
        let fields: [RedisValue]
        let host: String
        let limits: HostLimits

        /// A number of the reply; 0 if it is missing.
        func number(_ index: Int) -> Int { index < fields.count ? fields[index].int ?? 0 : 0 }

        /// Seconds until the next turn.
        private var wait: Double { Double(number(1)) / 1000 }
        /// Seconds from one turn to the next.
        private var interval: Double { Double(number(2)) / 1_000_000 }

        /// The host is at its limit, or has asked for a pause.
        var limit: ImagePipeline.Error {
            let left = Double(number(3)) / 1000
            let message =
                left > 0
                ? "Host \(host) answered 429 or 503 for several paths and asked for a pause; it gets no request for "
                    + "another \(Int(left.rounded(.up))) s."
                : "Host \(host) is at its limit of \(limitText); the next request can start in \(Self.seconds(wait)) s."
            var error = ImagePipeline.Error(.throttled, message, retryAfter: wait)
            if left > 0 { error.requestedDelay = left }
            error.hostTurn = HostTurn(host: host, wait: wait, interval: interval)
            return error
        }

        /// The circuit breaker of the host is open. A short outage costs no attempt; the jobs of a host that stays away
        /// fail, or they would never end.
        var openCircuit: ImagePipeline.Error {
            let down = Double(number(3)) / 1000
            let hasAnswered = number(4) == 1
            let failures = limits.failureThreshold(ofHostThatAnswered: hasAnswered)
            let patience = limits.patience(ofHostThatAnswered: hasAnswered).inSeconds
            let isGivenUp = down > patience
            let last = HostFailure(word: fields.dropFirst(5).first?.string)
            let reason = last.map { " The last failure of the host: \($0)." } ?? ""
            let probe = number(6) == 1 ? "a probe is under way" : "the next probe is in \(Self.seconds(wait)) s"
            var error = ImagePipeline.Error(
                isGivenUp ? .unreachable : .throttled,
                "Host \(host) has failed for \(Self.seconds(down)) s, and its circuit breaker is open after at least "
                    + "\(failures) consecutive failures; \(probe).\(reason)",
                retryAfter: wait
            )
            error.hostTurn = HostTurn(
                host: host,
                // The jobs come back when the patience ends, if that is before the next probe.
                wait: isGivenUp ? wait : min(wait, max(0, patience - down) + 0.001),
                interval: interval,
                isGivenUp: isGivenUp,
                isOpen: true
            )
            return error
        }

        private var limitText: String {
            let concurrency = "\(limits.concurrency) \(limits.concurrency == 1 ? "request" : "requests") at a time"
            return limits.rate.map { "\(concurrency) and \($0) a second" } ?? concurrency
        }

        private static func seconds(_ number: Double) -> String { String(format: "%.1f", number) }
    }
}
