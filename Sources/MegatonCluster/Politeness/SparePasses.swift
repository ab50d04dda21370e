internal import MegatonPipeline

/// Passes whose request was answered and that may serve the next one of the same process to the same host, without a word to
/// Redis. Without any effect of its own.
///
/// A host that answers is asked for hundreds of pictures a second; two round trips for each would cost more than to fetch it.
/// A pass serves for a moment after it was given, so that what others hear from the host counts here as soon.
struct SparePasses: Sendable {
    /// From when a pass was given: after that Redis is asked anew.
    static let lifetime: Duration = .milliseconds(250)
    /// A pass that nobody has used for so long goes back.
    static let rest: Duration = .milliseconds(50)

    private struct Spare {
        let pass: OriginPass
        let given: ContinuousClock.Instant
        let since: ContinuousClock.Instant
    }

    /// One that is to go back.
    struct Leaving: Equatable {
        let pass: OriginPass
        /// Redis has forgotten it by then, and there is nothing left to give.
        let until: ContinuousClock.Instant
        /// It could not go back before: by now its answer says nothing of the host.
        var isLate = false
    }

    private var spares: [String: [Spare]] = [:]
    /// Hosts with which something was wrong, and when: what was given before is used no more.
    private var distrusted: [String: ContinuousClock.Instant] = [:]
    /// Hosts whose answers Redis has not been told of, and when the last one came: failures count in a row, with no answer
    /// between them.
    private var untold: [String: ContinuousClock.Instant] = [:]
    /// Those that could not go back.
    private var stuck: [Leaving] = []

    var isEmpty: Bool { spares.isEmpty && stuck.isEmpty }

    /// - Parameter given: when Redis gave it.
    /// - Returns: whether it is kept; else it is to go back now.
    mutating func put(_ pass: OriginPass, given: ContinuousClock.Instant, at now: ContinuousClock.Instant) -> Bool {
        let isDistrusted = distrusted[pass.host].map { given <= $0 } ?? false
        guard !isDistrusted, given.duration(to: now) < Self.lifetime else {
            // It is told of this answer.
            untold[pass.host] = nil
            return false
        }
        spares[pass.host, default: []].append(Spare(pass: pass, given: given, since: now))
        untold[pass.host] = now
        return true
    }

    /// The one that was put last, so that those that are too many go back.
    mutating func take(_ host: String, at now: ContinuousClock.Instant) -> (
        pass: OriginPass, given: ContinuousClock.Instant
    )? {
        guard let last = spares[host]?.last, last.given.duration(to: now) < Self.lifetime else { return nil }
        spares[host]?.removeLast()
        if spares[host]?.isEmpty == true { spares[host] = nil }
        return (last.pass, last.given)
    }

    /// - Returns: those of the host, which are to go back before the failure is told. Where there are none but answers to tell
    ///   of, one that stands for nothing else.
    mutating func distrust(_ host: String, at now: ContinuousClock.Instant) -> [OriginPass] {
        distrusted[host] = now
        let passes = (spares.removeValue(forKey: host) ?? []).map(\.pass)
        let isUntold = untold.removeValue(forKey: host).map { $0.duration(to: now) < Self.lifetime } ?? false
        return passes.isEmpty && isUntold ? [OriginPass(host: host, token: "")] : passes
    }

    /// - Returns: those that are not used any more, which are to go back now.
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

    /// Keeps what could not go back, to be tried again with the next that are unused: it would take a place at its host.
    mutating func keep(_ leaving: [Leaving]) {
        stuck += leaving.map { Leaving(pass: $0.pass, until: $0.until, isLate: true) }
    }

    /// - Returns: all that are left, which are to go back now.
    mutating func removeAll(at now: ContinuousClock.Instant) -> [Leaving] {
        defer { (spares, untold, stuck) = ([:], [:], []) }
        let fresh = spares.values.joined().map { Leaving(pass: $0.pass, until: now + HostGate.passLifetime) }
        return stuck.filter { $0.until > now } + fresh
    }
}
