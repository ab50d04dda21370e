internal import Foundation
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

/// Closes a connection whose client does not read: the bytes that wait for it stay above the low-water mark of the
/// channel for a time limit. The framework closes no connection in the middle of a response.
final class StalledWriteLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Never

    /// The limit of a server.
    static let usual: Duration = .seconds(60)

    private let limit: TimeAmount
    private var timer: Scheduled<Void>?

    init(_ limit: Duration) { self.limit = TimeAmount(limit) }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stop()
        let channel = context.channel
        if !channel.isWritable {
            timer = context.eventLoop.scheduleTask(in: limit) { channel.close(mode: .all, promise: nil) }
        }
        context.fireChannelWritabilityChanged()
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

/// The descriptors of this process, which its connections share with everything else.
enum OpenFiles {
    /// Descriptors that are left for connections to Redis, files and the event loops.
    private static let others = 256

    /// Raises the limit of the process, if it is lower than that of the system, for a number of connections.
    ///
    /// - Returns: the number of connections for which there are descriptors, at least 64. Without such a limit, a
    ///   server would accept connections until the system refuses one, and end.
    static func connections(atMost wanted: Int) -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 64 }
        let needed = rlim_t(wanted + others)
        if limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = min(needed, limit.rlim_max)
            // If it fails, the former limit counts.
            if setrlimit(resource, &raised) == 0 { limit = raised }
        }
        if limit.rlim_cur >= needed { return wanted }
        return max(64, Int(limit.rlim_cur) - others)
    }
}
