import NIOCore

/// What a ``FaultProxy`` does at present to what passes through it.
struct FaultSettings: Sendable {
    /// Added to each piece, in each direction.
    var latency: TimeAmount = .zero
    /// Bytes per second, in each direction of each connection.
    var bandwidth: Int?
    var isBlackHole = false
    var isStopped = false
}
