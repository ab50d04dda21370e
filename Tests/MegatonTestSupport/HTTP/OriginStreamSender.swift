import Foundation
import NIOCore
import NIOHTTP1

/// Sends a response with an ``OriginStream`` as long as its client is connected.
///
/// Confined to its channel's event loop. A piece is sent once the kernel has accepted the one before, so that a client
/// that does not read costs one piece, and a disconnected client ends the stream.
final class OriginStreamSender {
    private let answer: OriginServer.Answer
    private let stream: OriginStream
    private let channel: any Channel
    private let piece: ByteBuffer
    /// Called with the size of each sent piece; returns whether to go on.
    private let streamed: (Int) -> Bool
    private var left: Int?

    /// Minimum pause before each piece: an event loop that is never idle does not poll its other sockets.
    private static let breath: TimeAmount = .milliseconds(1)

    init(
        _ stream: OriginStream,
        of answer: OriginServer.Answer,
        on channel: any Channel,
        _ streamed: @escaping (Int) -> Bool
    ) {
        self.answer = answer
        self.stream = stream
        self.channel = channel
        self.streamed = streamed
        piece = ByteBuffer(bytes: stream.piece)
        left = stream.total
    }

    func start() {
        let head = answer.head(length: answer.announcedLength)
        if stream.isHeader {
            let line = "HTTP/1.1 \(head.status.code) \(head.status.reasonPhrase)\r\n"
            _ = write(ByteBuffer(string: line))
        } else {
            channel.write(HTTPServerResponsePart.head(head), promise: nil)
            _ = write(ByteBuffer(bytes: answer.body))
        }
        later()
    }

    private func later() {
        channel.eventLoop.assumeIsolated().scheduleTask(in: max(stream.interval, Self.breath)) { [self] in next() }
    }

    private func next() {
        var bytes = piece
        if let left, left < bytes.readableBytes {
            // Never nil: the length is at most the number of readable bytes.
            bytes = bytes.readSlice(length: left) ?? ByteBuffer()
        }
        let count = bytes.readableBytes
        write(bytes).assumeIsolated().whenComplete { [self] result in
            guard case .success = result, streamed(count) else {
                channel.close(promise: nil)
                return
            }
            left = left.map { $0 - count }
            if left == 0 { finish() } else { later() }
        }
    }

    private func finish() {
        let announced = answer.announcedLength
        if stream.isHeader || (announced != nil && announced != answer.body.count + (stream.total ?? 0)) {
            // The announced rest never comes: the connection closes early.
            channel.close(promise: nil)
        } else {
            channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        }
    }

    /// - Returns: a future that completes once the kernel has the bytes.
    private func write(_ bytes: ByteBuffer) -> EventLoopFuture<Void> {
        guard stream.isHeader else { return channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(bytes))) }
        do {
            // Bypasses the encoder, which would end the header section.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            return encoder.writeAndFlush(NIOAny(bytes))
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }
}
