/// The connections of HTTP/2 that requests use, and which of them have gone silent, as those to a frozen host or behind
/// a firewall that has forgotten them. Used on curl's thread only.
///
/// A request that times out ends its connection in HTTP/1.1. In HTTP/2, libcurl ends its stream alone and sends each
/// retry over the same connection. Therefore a connection over which nothing has arrived for half of the time of a
/// request that times out is given up: until its last request has ended and it is closed, others to its origin use
/// fresh ones.
final class ConnectionActivity {
    /// A connection with at least one request.
    final class Connection {
        fileprivate let key: Key
        fileprivate var requestCount = 0
        fileprivate(set) var isSilent = false
        /// The time of the last byte of any response.
        var lastByte = ContinuousClock.now

        fileprivate init(_ key: Key) { self.key = key }
    }

    fileprivate struct Key: Hashable {
        let origin: String
        let localPort: Int
    }

    /// Bounded by the number of requests in progress.
    private var connections: [Key: Connection] = [:]

    /// Whether requests to this origin need a connection of their own.
    func isSilent(_ origin: String) -> Bool {
        connections.values.contains { $0.isSilent && $0.key.origin == origin }
    }

    /// Notes that a request is sent over a connection, which is identified by its local port.
    func use(_ origin: String, localPort: Int) -> Connection {
        let key = Key(origin: origin, localPort: localPort)
        let connection = connections[key] ?? Connection(key)
        connections[key] = connection
        connection.requestCount += 1
        return connection
    }

    /// Notes that a request has timed out. The connection is silent if nothing has arrived for half of that time.
    ///
    /// - Parameters:
    ///   - sent: the time at which the request was sent.
    ///   - now: the time at which it has timed out.
    /// - Returns: whether the connection is silent, and was not known to be.
    func timedOut(_ connection: Connection, sent: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Bool {
        let quiet = max(connection.lastByte, sent).duration(to: now)
        if connection.isSilent || quiet + quiet < sent.duration(to: now) { return false }
        connection.isSilent = true
        return true
    }

    /// Notes that a request of the connection has ended.
    func leave(_ connection: Connection) {
        connection.requestCount -= 1
        if connection.requestCount <= 0 { connections[connection.key] = nil }
    }
}
