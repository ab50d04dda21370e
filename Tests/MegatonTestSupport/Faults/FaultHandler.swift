import NIOCore

/// Forwards events of one side to its ``FaultConnection``.
final class FaultHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: FaultConnection
    private let side: FaultConnection.Side

    init(_ connection: FaultConnection, _ side: FaultConnection.Side) {
        self.connection = connection
        self.side = side
    }

    func channelActive(context: ChannelHandlerContext) {
        if side == .client { connection.start() }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        connection.read(unwrapInboundIn(data), from: side)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        connection.refresh()
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        connection.ended(side)
        context.fireChannelInactive()
    }

    /// A reset by the peer: `channelInactive` follows.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
