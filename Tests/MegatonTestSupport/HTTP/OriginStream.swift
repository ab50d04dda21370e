public import Foundation
public import NIOCore

/// A part of an ``OriginServer/Answer`` that is sent piece by piece: slowly, or forever.
public struct OriginStream: Sendable {
    /// Sent repeatedly. The last one is cut to the rest of the total.
    public var piece: Data
    /// Interval before each piece; with zero, pieces are sent as fast as the client reads.
    public var interval: TimeAmount
    /// Total bytes, without the response's own body; nil for no end.
    public var total: Int?
    /// Whether pieces are lines of header fields: the header section has no end, and the response's own body never
    /// comes.
    public var isHeader: Bool

    public init(piece: Data, interval: TimeAmount = .zero, total: Int? = nil, isHeader: Bool = false) {
        self.piece = piece
        self.interval = interval
        self.total = total
        self.isHeader = isHeader
    }
}
