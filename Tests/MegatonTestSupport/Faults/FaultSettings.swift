import NIOCore

/// The current faults of a ``FaultProxy``.
struct FaultSettings: Sendable {
    /// Delay of each piece, in each direction.
    var latency: TimeAmount = .zero
    /// Bytes per second, in each direction of each connection.
    var bandwidth: Int?
    var isBlackHole = false
    /// Address of the clients on the other side of a split network.
    var splitFrom: String?
    var isStopped = false

    /// Whether traffic of clients with this address is held.
    func holds(_ address: String?) -> Bool { isBlackHole || (splitFrom != nil && splitFrom == address) }
}
