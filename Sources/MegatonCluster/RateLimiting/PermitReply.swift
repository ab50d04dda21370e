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
        let fields = (reply.array ?? []).dropFirst()
        switch reply.array?.first?.string {
        case "wait": self = .refused(Self.limit(fields, of: host, limits), counter: "throttled")
        case "open": self = .refused(Self.openCircuit(fields, of: host, limits), counter: "broken_off")
        default: self = .granted(isHealthy: fields.first?.int == 1, hasBegun: fields.dropFirst().first?.int != 0)
        }
    }

    /// The host is at its limit, or has asked for a pause.
    private static func limit(
        _ fields: ArraySlice<RedisValue>,
        of host: String,
        _ limits: HostLimits
    ) -> ImagePipeline.Error {
        let (wait, turn) = turn(fields, of: host)
        let left = Double(fields.dropFirst(2).first?.int ?? 0) / 1000
        guard left > 0 else {
            var error = ImagePipeline.Error(
                .throttled,
                "Host \(host) is at its limit of \(text(limits)); the next request can start in \(seconds(wait)) s.",
                retryAfter: wait
            )
            error.hostTurn = turn
            return error
        }
        var error = ImagePipeline.Error(
            .throttled,
            "Host \(host) answered 429 or 503 for several paths and asked for a pause; it gets no request for "
                + "another \(Int(left.rounded(.up))) s.",
            retryAfter: wait
        )
        error.requestedDelay = left
        error.hostTurn = turn
        return error
    }

    /// The circuit breaker of the host is open. A short outage costs no attempt; the jobs of a host that stays away
    /// fail, or they would never end.
    private static func openCircuit(
        _ fields: ArraySlice<RedisValue>,
        of host: String,
        _ limits: HostLimits
    ) -> ImagePipeline.Error {
        let (wait, turn) = turn(fields, of: host)
        let down = Double(fields.dropFirst(2).first?.int ?? 0) / 1000
        let hasAnswered = fields.dropFirst(3).first?.int != 0
        let failures = limits.failureThreshold(ofHostThatAnswered: hasAnswered)
        let patience = limits.patience(ofHostThatAnswered: hasAnswered).inSeconds
        let isGivenUp = down > patience
        let last = HostFailure(word: fields.dropFirst(4).first?.string)
        let reason = last.map { " The last failure of the host: \($0)." } ?? ""
        let isProbed = fields.dropFirst(5).first?.int == 1
        let probe = isProbed ? "a probe is under way" : "the next probe is in \(seconds(wait)) s"
        var error = ImagePipeline.Error(
            isGivenUp ? .unreachable : .throttled,
            "Host \(host) has failed for \(seconds(down)) s, and its circuit breaker is open after at least "
                + "\(failures) consecutive failures; \(probe).\(reason)",
            retryAfter: wait
        )
        error.hostTurn = HostTurn(
            host: host,
            // The jobs come back when the patience ends, if that is before the next probe.
            wait: isGivenUp ? wait : min(wait, max(0, patience - down) + 0.001),
            interval: turn.interval,
            isGivenUp: isGivenUp,
            isOpen: true
        )
        return error
    }

    /// Seconds until the next turn, and that turn.
    private static func turn(_ fields: ArraySlice<RedisValue>, of host: String) -> (wait: Double, turn: HostTurn) {
        let wait = Double(fields.first?.int ?? 0) / 1000
        let interval = Double(fields.dropFirst().first?.int ?? 0) / 1_000_000
        return (wait, HostTurn(host: host, wait: wait, interval: interval))
    }

    private static func text(_ limits: HostLimits) -> String {
        let concurrency = "\(limits.concurrency) \(limits.concurrency == 1 ? "request" : "requests") at a time"
        return limits.rate.map { "\(concurrency) and \($0) a second" } ?? concurrency
    }

    private static func seconds(_ number: Double) -> String { String(format: "%.1f", number) }
}
