internal import NIOCore

/// Closes a connection on which no request has begun within a time limit. It is shorter than the time for which a
/// connection may be idle between two requests, so that clients that never send one cannot take up all connections.
///
/// It stands behind the decoder of HTTP: the first part that it receives is the head of a request.
final class FirstRequestLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    private var timer: CloseTimer

    init(_ limit: Duration) { timer = CloseTimer(limit) }

    func handlerAdded(context: ChannelHandlerContext) { timer.start(context.channel) }

    func handlerRemoved(context: ChannelHandlerContext) { timer.stop() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        timer.stop()
        context.fireChannelRead(data)
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer.stop()
        context.fireChannelInactive()
    }
}

/// Closes a connection whose client does not read: the bytes that wait for it stay above the low-water mark of the
/// channel for a time limit. The framework closes no connection in the middle of a response.
final class StalledWriteLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    /// The limit of a server.
    static let usual: Duration = .seconds(60)

    private var timer: CloseTimer

    init(_ limit: Duration) { timer = CloseTimer(limit) }

    func handlerRemoved(context: ChannelHandlerContext) { timer.stop() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        timer.stop()
        if !context.channel.isWritable { timer.start(context.channel) }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer.stop()
        context.fireChannelInactive()
    }
}

/// Notes that the client of a connection has gone, or has closed its side, for handlers that wait before they respond.
/// Until they write, nothing else shows it.
final class DepartureNote: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    private var hasLeft = false

    /// Whether the client of a connection has gone.
    static func hasLeft(_ channel: any Channel) async -> Bool {
        do {
            return try await channel.eventLoop.submit {
                try channel.pipeline.syncOperations.handler(type: DepartureNote.self).hasLeft
            }.get()
        } catch {
            // A connection that is closed has no handlers.
            return !channel.isActive
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let change = event as? ChannelEvent, change == .inputClosed { hasLeft = true }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        hasLeft = true
        context.fireChannelInactive()
    }
}

/// Closes a connection after a time limit, unless it is stopped before. Used on the event loop of the connection.
struct CloseTimer {
    private let limit: TimeAmount
    private var task: Scheduled<Void>?

    init(_ limit: Duration) { self.limit = TimeAmount(limit) }

    mutating func start(_ channel: any Channel) {
        stop()
        task = channel.eventLoop.scheduleTask(in: limit) { channel.close(mode: .all, promise: nil) }
    }

    mutating func stop() {
        task?.cancel()
        task = nil
    }
}
