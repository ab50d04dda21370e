internal import MegatonPipeline

/// Per-process cache of granted permits: a permit whose request was answered may serve the next request of this process
/// to the same host, without asking Redis. Pure state, no I/O.
///
/// A host that answers gets hundreds of image requests a second; two round trips for each would cost more than the
/// fetch. A permit is reused only for a moment after it was granted, so that outcomes in other processes soon count
/// here too.
struct SparePasses: Sendable {
    /// Time after the grant in which a permit may be reused; later requests ask Redis again.
    static let lifetime: Duration = .milliseconds(250)
    /// Time after which an unused permit is released.
    static let rest: Duration = .milliseconds(50)

    private struct Spare {
        let pass: OriginPass
        let given: ContinuousClock.Instant
        let since: ContinuousClock.Instant
    }

    /// A permit to release.
    struct Leaving: Equatable {
        let pass: OriginPass
        /// Time at which Redis has forgotten the permit, and there is nothing left to release.
        let until: ContinuousClock.Instant
        /// Whether an earlier release failed: by now its response says nothing about the host.
        var isLate = false
    }

    private var spares: [String: [Spare]] = [:]
    /// Hosts with a failure, and its time: permits that were granted before are not reused.
    private var distrusted: [String: ContinuousClock.Instant] = [:]
    /// Hosts with responses that were not reported to Redis, and the time of the last one: failures count only if no
    /// response comes in between.
    private var untold: [String: ContinuousClock.Instant] = [:]
    /// Permits whose release failed.
    private var stuck: [Leaving] = []

    var isEmpty: Bool { spares.isEmpty && stuck.isEmpty }

    /// Stores a permit whose request was answered.
    ///
    /// - Parameter given: when Redis granted it.
    /// - Returns: whether it is kept; otherwise the caller releases it now.
    mutating func put(_ pass: OriginPass, given: ContinuousClock.Instant, at now: ContinuousClock.Instant) -> Bool {
        let isDistrusted = distrusted[pass.host].map { given <= $0 } ?? false
        guard !isDistrusted, given.duration(to: now) < Self.lifetime else {
            // Its release reports this response.
            untold[pass.host] = nil
            return false
        }
        spares[pass.host, default: []].append(Spare(pass: pass, given: given, since: now))
        untold[pass.host] = now
        return true
    }

    /// Takes the permit that was put last, so that surplus ones stay unused and are released.
    mutating func take(_ host: String, at now: ContinuousClock.Instant) -> (
        pass: OriginPass, given: ContinuousClock.Instant
    )? {
        guard let last = spares[host]?.last, last.given.duration(to: now) < Self.lifetime else { return nil }
        spares[host]?.removeLast()
        if spares[host]?.isEmpty == true { spares[host] = nil }
        return (last.pass, last.given)
    }

    /// Stops the reuse of permits that were granted to this host before.
    ///
    /// - Returns: the permits to release before the failure is reported. If there are only responses to report, one
    ///   permit without a token.
    mutating func distrust(_ host: String, at now: ContinuousClock.Instant) -> [OriginPass] {
        distrusted[host] = now
        let passes = (spares.removeValue(forKey: host) ?? []).map(\.pass)
        let isUntold = untold.removeValue(forKey: host).map { $0.duration(to: now) < Self.lifetime } ?? false
        return passes.isEmpty && isUntold ? [OriginPass(host: host, token: "")] : passes
    }

    /// - Returns: unused permits, to be released now.
    mutating func unused(at now: ContinuousClock.Instant) -> [Leaving] {
        distrusted = distrusted.filter { $0.value.duration(to: now) < Self.lifetime }
        untold = untold.filter { $0.value.duration(to: now) < Self.lifetime }
        var unused = stuck.filter { $0.until > now }
        stuck = []
        for (host, kept) in spares {
            let left = kept.filter { spare in
                spare.since.duration(to: now) < Self.rest && spare.given.duration(to: now) < Self.lifetime
            }
            if left.count == kept.count { continue }
            let usable = Set(left.map(\.pass))
            unused += kept.map(\.pass).filter { !usable.contains($0) }.map { pass in
                Leaving(pass: pass, until: now + HostGate.passLifetime)
            }
            untold[host] = nil
            spares[host] = left.isEmpty ? nil : left
        }
        return unused
    }

    /// Keeps permits whose release failed, to be released with the next unused ones: they would occupy slots of their
    /// hosts.
    mutating func keep(_ leaving: [Leaving]) {
        stuck += leaving.map { Leaving(pass: $0.pass, until: $0.until, isLate: true) }
    }

    /// - Returns: all remaining permits, to be released now.
    mutating func removeAll(at now: ContinuousClock.Instant) -> [Leaving] {
        defer { (spares, untold, stuck) = ([:], [:], []) }
        let fresh = spares.values.joined().map { Leaving(pass: $0.pass, until: now + HostGate.passLifetime) }
        return stuck.filter { $0.until > now } + fresh
    }
}
