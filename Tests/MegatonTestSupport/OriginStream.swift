public import Foundation
public import NIOCore

/// A part of an ``OriginServer/Answer`` that comes piece by piece: slowly, or for ever.
public struct OriginStream: Sendable {
    /// Sent again and again. The last one is cut to what is left of the total.
    public var piece: Data
    /// Before each piece; zero is as fast as the client reads.
    public var interval: TimeAmount
    /// Bytes in all, without the answer's own body; nil for no end.
    public var total: Int?
    /// The pieces are lines of header fields: the header section has no end, and the answer's own body never comes.
    public var isHeader: Bool

    public init(piece: Data, interval: TimeAmount = .zero, total: Int? = nil, isHeader: Bool = false) {
        self.piece = piece
        self.interval = interval
        self.total = total
        self.isHeader = isHeader
    }
}
