import NIOCore

/// One direction of a connection: the bytes read and not yet written, in order.
///
/// Confined to its connection's event loop.
final class FaultPipe {
    /// The result of a ``pump(to:_:)``.
    enum Outcome {
        /// Nothing to do until new bytes arrive or the destination has room.
        case idle
        /// The next piece may pass at this time.
        case later(NIODeadline)
        /// The source has ended, or the stream was torn; reported once.
        case over
    }

    private struct Piece {
        var bytes: ByteBuffer
        let due: NIODeadline
    }

    /// Reading pauses above this size in bytes, so that a slow or broken link costs bounded memory.
    private static let limit = 1 << 20
    /// Slices per second in which a limited bandwidth lets bytes pass, rather than all at the end.
    private static let slicesPerSecond = 20

    private var pieces = CircularBuffer<Piece>()
    private var held = 0
    private var end: NIODeadline?
    private var isOver = false
    /// Time at which the link has carried all bytes given to it.
    private var freeAt = NIODeadline.distantPast
    /// Number of bytes that may still pass before the stream is torn.
    private var left: Int?
    /// Timer that resumes the connection for the next piece.
    var timer: Scheduled<Void>?
    /// Whether reading from its source is paused.
    var isPaused = false

    var isFull: Bool { held >= Self.limit }

    func append(_ bytes: ByteBuffer, after latency: TimeAmount) {
        if isOver { return }
        pieces.append(Piece(bytes: bytes, due: .now() + latency))
        held += bytes.readableBytes
    }

    /// Marks the end of the source, which passes after the bytes.
    func finish(after latency: TimeAmount) {
        if end == nil { end = .now() + latency }
    }

    /// Ends the stream once `count` more bytes have passed.
    func tear(after count: Int) { left = count }

    /// Drops all bytes; nothing passes any more.
    func discard() {
        isOver = true
        pieces.removeAll()
        held = 0
        timer?.cancel()
    }

    /// Writes the bytes that may pass now.
    ///
    /// A write may call this method again before it returns (the destination has room), so the state is updated before
    /// each write.
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
        // Never nil: `count` is at most the number of readable bytes.
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
