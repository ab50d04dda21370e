import Synchronization

/// Hosts that this worker has reported as given up a moment ago: one report makes all held jobs of a host ready, and
/// thousands of them may fail in a second.
final class GivenUpHosts: Sendable {
    private let reported = Mutex<[String: ContinuousClock.Instant]>([:])

    /// Time for which a report is not repeated: jobs that were held meanwhile follow with the next one.
    private static let interval: Duration = .seconds(1)
    /// Time after a report for which the host counts as given up. If it answers meanwhile, a pack runs slower at first.
    private static let memory: Duration = .seconds(10)
    /// Hosts that are remembered. Above that, all are forgotten: a report too many costs one command.
    private static let limit = 1000

    /// Whether the host is to be reported now.
    func isNews(_ host: String, at now: ContinuousClock.Instant) -> Bool {
        reported.withLock { reported in
            if let last = reported[host], last.duration(to: now) < Self.interval { return false }
            if reported.count >= Self.limit { reported.removeAll() }
            reported[host] = now
            return true
        }
    }

    /// Whether this worker has reported the host not long ago.
    func contains(_ host: String, at now: ContinuousClock.Instant) -> Bool {
        reported.withLock { reported in reported[host].map { $0.duration(to: now) < Self.memory } ?? false }
    }
}
