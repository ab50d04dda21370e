import Foundation
import NIOCore
import NIOHTTP1

/// Sends an answer with an ``OriginStream`` for as long as there is a client.
///
/// Lives on its channel's event loop. A piece goes out when the kernel has taken the one before, so that a client that
/// does not read costs one piece, and one that is gone ends it.
final class OriginStreamSender {
    private let answer: OriginServer.Answer
    private let stream: OriginStream
    private let channel: any Channel
    private let piece: ByteBuffer
    /// Told of each piece; says whether to go on.
    private let streamed: (Int) -> Bool
    private var left: Int?

    /// Before each piece at the least: a loop that always has something to run does not look at its other sockets.
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
            // Never nil: the count is not above what is there.
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
            // What was announced never comes: the connection ends in the middle.
            channel.close(promise: nil)
        } else {
            channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        }
    }

    /// - Returns: done when the kernel has the bytes.
    private func write(_ bytes: ByteBuffer) -> EventLoopFuture<Void> {
        guard stream.isHeader else { return channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(bytes))) }
        do {
            // Past the encoder, which would end the header section.
            let encoder = try channel.pipeline.syncOperations.context(handlerType: HTTPResponseEncoder.self)
            return encoder.writeAndFlush(NIOAny(bytes))
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }
}
