internal import NIOCore

/// Closes a connection on which no request has begun within a time limit. It is shorter than the time for which a
/// connection may be idle between two requests, so that clients that never send one cannot take up all connections.
///
/// It stands behind the decoder of HTTP: the first part that it receives is the head of a request.
final class FirstRequestLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    private let limit: TimeAmount
    private var timer: Scheduled<Void>?

    init(_ limit: Duration) { self.limit = TimeAmount(limit) }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        timer = context.eventLoop.scheduleTask(in: limit) { channel.close(mode: .all, promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        stop()
        context.fireChannelRead(data)
    }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        context.fireChannelInactive()
    }

    private func stop() {
        timer?.cancel()
        timer = nil
    }
}
