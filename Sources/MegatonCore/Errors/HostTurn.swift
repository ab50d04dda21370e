/// The turn of a request that a host did not take now: when it takes the next one. A queue holds the job until then.
package struct HostTurn: Sendable, Hashable, Codable {
    /// `host:port`, in lower case.
    package let host: String
    /// Seconds until the host takes another request.
    package let wait: Double
    /// Seconds from one request to the next after that.
    package let interval: Double
    /// Whether the host has not answered for so long that its jobs no longer wait for it.
    package let isGivenUp: Bool
    /// Whether its circuit breaker is open, as it has failed or not answered; nil for no.
    package let isOpen: Bool?

    /// - Parameters:
    ///   - host: `host:port`, in lower case.
    ///   - wait: seconds, 0 or more.
    ///   - interval: seconds, 0 or more.
    ///   - isOpen: whether the circuit breaker of the host is open.
    package init(host: String, wait: Double, interval: Double, isGivenUp: Bool = false, isOpen: Bool? = nil) {
        self.host = host
        self.wait = Self.bounded(wait)
        self.interval = Self.bounded(interval)
        self.isGivenUp = isGivenUp
        self.isOpen = isOpen
    }

    /// The same turn after some time has passed.
    package func after(_ time: Duration) -> HostTurn {
        let seconds = Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
        return HostTurn(host: host, wait: wait - seconds, interval: interval, isGivenUp: isGivenUp, isOpen: isOpen)
    }

    /// At most a day, as the numbers may come from another process.
    private static func bounded(_ seconds: Double) -> Double {
        seconds.isFinite ? min(max(0, seconds), 24 * 3600) : 0
    }
}
