import NIOCore

/// One direction of a connection: what was read and not yet written, in order.
///
/// Lives on its connection's event loop.
final class FaultPipe {
    /// How a ``pump(to:_:)`` ended.
    enum Outcome {
        /// Nothing more until new bytes come or the destination has room.
        case idle
        /// The next piece may pass at this time.
        case later(NIODeadline)
        /// The source's end was reached, or the stream was torn: told once.
        case over
    }

    private struct Piece {
        var bytes: ByteBuffer
        let due: NIODeadline
    }

    /// Reading stops above this, so that a slow or broken link costs bounded memory.
    private static let limit = 1 << 20
    /// With a bandwidth, bytes pass in this many slices per second rather than all at the end.
    private static let slicesPerSecond = 20

    private var pieces = CircularBuffer<Piece>()
    private var held = 0
    private var end: NIODeadline?
    private var isOver = false
    /// When the link has carried what was given to it.
    private var freeAt = NIODeadline.distantPast
    /// How many bytes may still pass before the stream is torn.
    private var left: Int?
    /// Wakes the connection for the next piece.
    var timer: Scheduled<Void>?
    /// Whether its source is not being read.
    var isPaused = false

    var isFull: Bool { held >= Self.limit }

    func append(_ bytes: ByteBuffer, after latency: TimeAmount) {
        if isOver { return }
        pieces.append(Piece(bytes: bytes, due: .now() + latency))
        held += bytes.readableBytes
    }

    /// The source ended: the end passes behind the bytes.
    func finish(after latency: TimeAmount) {
        if end == nil { end = .now() + latency }
    }

    /// The stream ends once so many more bytes have passed.
    func tear(after count: Int) { left = count }

    /// Nothing passes any more.
    func discard() {
        isOver = true
        pieces.removeAll()
        held = 0
        timer?.cancel()
    }

    /// Writes what may pass now.
    ///
    /// A write may call this again before it returns (the destination has room): the state is up to date before each.
    func pump(to destination: any Channel, _ settings: FaultSettings) -> Outcome {
        while let first = pieces.first {
            guard destination.isWritable else { return .idle }
            let now = NIODeadline.now()
            let time = max(first.due, freeAt)
            if time > now { return .later(time) }
            let bytes = take(at: now, settings.bandwidth)
            let isTorn = left == 0
            if isTorn { discard() }
            destination.writeAndFlush(bytes, promise: nil)
            if isTorn { return .over }
        }
        guard !isOver, let end else { return .idle }
        if end > .now() { return .later(end) }
        isOver = true
        return .over
    }

    private func take(at now: NIODeadline, _ bandwidth: Int?) -> ByteBuffer {
        let start = pieces.startIndex
        var count = pieces[start].bytes.readableBytes
        if let bandwidth { count = min(count, max(1, bandwidth / Self.slicesPerSecond)) }
        if let left { count = min(count, left) }
        // Never nil: the count is not above what is there.
        let bytes = pieces[start].bytes.readSlice(length: count) ?? ByteBuffer()
        if pieces[start].bytes.readableBytes == 0 { pieces.removeFirst() }
        held -= count
        left = left.map { $0 - count }
        if let bandwidth {
            freeAt = now + .nanoseconds(Int64(Double(count) / Double(max(1, bandwidth)) * 1e9))
        }
        return bytes
    }
}
