package import MegatonCore
import Synchronization

/// Limits the failed attempts of a client to use a token.
///
/// Clients are known by their address, and those of IPv6 by the first 64 bits, because a client has all addresses that
/// begin with them. A minute begins with the first failed attempt.
package final class AttemptLimit: Sendable {
    /// A client, as far as the limit separates it from others.
    package struct Client: Sendable, Hashable {
        /// 4 bytes, or the first 8 of an IPv6 address; empty for clients without an address.
        private let prefix: [UInt8]

        /// - Parameter address: an IP address; nil for a client of a local socket.
        package init(_ address: String?) {
            let bytes = address.flatMap(HostAddress.init)?.bytes ?? []
            prefix = Array(bytes.prefix(8))
        }
    }

    private struct Window {
        let start: Duration
        var failures = 0
        /// Whether the log has a line about them.
        var isReported = false
    }

    private struct State {
        var windows: [Client: Window] = [:]
        /// The clients of `windows` from `first` on, by the start of their window; the oldest is the first.
        var order: [Client] = []
        var first = 0
        /// Lines of the log until `reportsEnd`.
        var reports = 0
        var reportsEnd = Duration.zero

        var oldest: Window? { first < order.count ? windows[order[first]] : nil }

        mutating func removeOldest() {
            guard first < order.count else { return }
            windows[order[first]] = nil
            first += 1
            // Seldom, because removing from the front of the array moves all others.
            if first * 2 >= order.count {
                order.removeFirst(first)
                first = 0
            }
        }
    }

    /// Failed attempts a minute after which further ones are refused.
    static let maximumFailures = 10
    /// Lines of the log a minute about all clients: an attacker may have any number of addresses.
    static let maximumReports = 100
    private static let period = Duration.seconds(60)

    private let capacity: Int
    private let time: TimeSource
    private let state = Mutex(State())

    /// - Parameter capacity: maximum number of clients that are counted; the oldest is forgotten for a further one.
    package init(capacity: Int = 10_000, time: TimeSource = TimeSource(ContinuousClock())) {
        self.capacity = max(1, capacity)
        self.time = time
    }

    /// Time until the next attempt of a client is looked at; nil if that is now.
    package func delay(of client: Client) -> Duration? {
        let now = time.now()
        return state.withLock { state in
            guard let window = state.windows[client], window.failures >= Self.maximumFailures else { return nil }
            let rest = window.start + Self.period - now
            return rest > .zero ? rest : nil
        }
    }

    /// Counts a failed attempt.
    package func fail(_ client: Client) {
        state.withLock { state in
            // Read with the lock held: windows are ordered by their start.
            let now = time.now()
            while let oldest = state.oldest, oldest.start + Self.period <= now { state.removeOldest() }
            if state.windows[client] == nil {
                if state.windows.count >= capacity { state.removeOldest() }
                state.order.append(client)
                state.windows[client] = Window(start: now)
            }
            state.windows[client]?.failures += 1
        }
    }

    /// Whether the log should have a line about the failed attempts of a client: once in its minute, unless many
    /// clients fail.
    func takeReport(about client: Client) -> Bool {
        let now = time.now()
        return state.withLock { state in
            if state.reportsEnd <= now { (state.reports, state.reportsEnd) = (0, now + Self.period) }
            // A client that was forgotten meanwhile has a line when it fails again.
            guard state.reports < Self.maximumReports, let window = state.windows[client], !window.isReported
            else { return false }
            state.reports += 1
            state.windows[client]?.isReported = true
            return true
        }
    }

    /// Number of clients that are counted.
    var count: Int { state.withLock { $0.windows.count } }
}
