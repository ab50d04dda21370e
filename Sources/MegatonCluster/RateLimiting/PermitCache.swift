internal import MegatonPipeline

/// Per-process cache of granted permits: a permit whose request was answered may serve the next request of this process
/// to the same host, without asking Redis. Pure state, no I/O.
///
/// A host that answers gets hundreds of image requests a second; two round trips for each would cost more than the
/// fetch. A permit is reused only for a moment after it was granted, so that outcomes in other processes soon count
/// here too.
struct PermitCache: Sendable {
    /// Time after the grant in which a permit may be reused; later requests ask Redis again.
    static let lifetime: Duration = .milliseconds(250)
    /// Time after which an unused permit is released.
    static let idleTime: Duration = .milliseconds(50)

    private struct Idle {
        let permit: FetchPermit
        let granted: ContinuousClock.Instant
        let since: ContinuousClock.Instant
    }

    /// A permit to release.
    struct Release: Equatable {
        let permit: FetchPermit
        /// Time at which Redis has forgotten the permit, and there is nothing left to release.
        let expiry: ContinuousClock.Instant
        /// Whether an earlier release failed: by now its response says nothing about the host.
        var isLate = false
    }

    private var idle: [String: [Idle]] = [:]
    /// Hosts with a failure, and its time: permits that were granted before are not reused.
    private var invalidated: [String: ContinuousClock.Instant] = [:]
    /// Hosts with responses that were not reported to Redis, and the time of the last one: failures count only if no
    /// response comes in between.
    private var unreported: [String: ContinuousClock.Instant] = [:]
    /// Permits whose release failed.
    private var unreleased: [Release] = []

    var isEmpty: Bool { idle.isEmpty && unreleased.isEmpty }

    /// Stores a permit whose request was answered.
    ///
    /// - Parameter granted: when Redis granted it.
    /// - Returns: whether it is kept; otherwise the caller releases it now.
    mutating func store(_ permit: FetchPermit, granted: ContinuousClock.Instant, at now: ContinuousClock.Instant)
        -> Bool
    {
        let isInvalidated = invalidated[permit.host].map { granted <= $0 } ?? false
        guard !isInvalidated, granted.duration(to: now) < Self.lifetime else {
            // Its release reports this response.
            unreported[permit.host] = nil
            return false
        }
        idle[permit.host, default: []].append(Idle(permit: permit, granted: granted, since: now))
        unreported[permit.host] = now
        return true
    }

    /// Removes the permit that was stored last, so that surplus ones stay unused and are released.
    mutating func reuse(_ host: String, at now: ContinuousClock.Instant) -> (
        permit: FetchPermit, granted: ContinuousClock.Instant
    )? {
        guard let last = idle[host]?.last, last.granted.duration(to: now) < Self.lifetime else { return nil }
        idle[host]?.removeLast()
        if idle[host]?.isEmpty == true { idle[host] = nil }
        return (last.permit, last.granted)
    }

    /// Stops the reuse of permits that were granted to this host before.
    ///
    /// - Returns: the permits to release before the failure is reported. If there are only responses to report, one
    ///   permit without a token.
    mutating func invalidate(_ host: String, at now: ContinuousClock.Instant) -> [FetchPermit] {
        invalidated[host] = now
        let permits = (idle.removeValue(forKey: host) ?? []).map(\.permit)
        let isUnreported = unreported.removeValue(forKey: host).map { $0.duration(to: now) < Self.lifetime } ?? false
        return permits.isEmpty && isUnreported ? [FetchPermit(host: host, token: "")] : permits
    }

    /// - Returns: unused permits, to be released now.
    mutating func removeUnused(at now: ContinuousClock.Instant) -> [Release] {
        invalidated = invalidated.filter { $0.value.duration(to: now) < Self.lifetime }
        unreported = unreported.filter { $0.value.duration(to: now) < Self.lifetime }
        var unused = unreleased.filter { $0.expiry > now }
        unreleased = []
        for (host, kept) in idle {
            let left = kept.filter { permit in
                permit.since.duration(to: now) < Self.idleTime && permit.granted.duration(to: now) < Self.lifetime
            }
            if left.count == kept.count { continue }
            let usable = Set(left.map(\.permit))
            unused += kept.map(\.permit).filter { !usable.contains($0) }.map { permit in
                Release(permit: permit, expiry: now + HostRateLimiter.permitLifetime)
            }
            unreported[host] = nil
            idle[host] = left.isEmpty ? nil : left
        }
        return unused
    }

    /// Keeps permits whose release failed, to be released with the next unused ones: they would occupy slots of their
    /// hosts.
    mutating func retryLater(_ releases: [Release]) {
        unreleased += releases.map { Release(permit: $0.permit, expiry: $0.expiry, isLate: true) }
    }

    /// - Returns: all remaining permits, to be released now.
    mutating func removeAll(at now: ContinuousClock.Instant) -> [Release] {
        defer { (idle, unreported, unreleased) = ([:], [:], []) }
        let fresh = idle.values.joined().map {
            Release(permit: $0.permit, expiry: now + HostRateLimiter.permitLifetime)
        }
        return unreleased.filter { $0.expiry > now } + fresh
    }
}
