import NIOCore

/// What a ``FaultProxy`` does at present to what passes through it.
struct FaultSettings: Sendable {
    /// Added to each piece, in each direction.
    var latency: TimeAmount = .zero
    /// Bytes per second, in each direction of each connection.
    var bandwidth: Int?
    var isBlackHole = false
    /// The address of the clients that are on the other side of a network that is split.
    var splitFrom: String?
    var isStopped = false

    /// Whether nothing passes to or from clients of this address.
    func holds(_ address: String?) -> Bool { isBlackHole || (splitFrom != nil && splitFrom == address) }
}
