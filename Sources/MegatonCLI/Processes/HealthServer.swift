import Foundation
import MegatonCommandLine
import NIOCore
import NIOHTTP1
import NIOPosix

/// HTTP server for health checks: `/live` is 200 while the process responds, `/ready` is 200 while it can work and 503
/// while it cannot. The two differ because restarting a worker whose Redis is unreachable would not help.
final class HealthServer: Sendable {
    private let channel: any Channel

    private init(_ channel: any Channel) { self.channel = channel }

    /// The parts of `address:port`; nil if the text is invalid.
    static func address(_ text: String) -> (host: String, port: Int)? {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { return nil }
        let host = text[..<colon].trimmingPrefix("[").prefix { $0 != "]" }
        return host.isEmpty ? nil : (String(host), port)
    }

    /// Listens until it is stopped.
    ///
    /// - Parameters:
    ///   - timeout: limit from connection to response: a silent or slow client holds its descriptor no longer.
    ///   - isReady: called for each request, on an event loop: must not block.
    /// - Throws: `CLIError` if it cannot listen on the address.
    static func start(
        _ text: String,
        timeout: TimeAmount = .seconds(5),
        isReady: @escaping @Sendable () -> Bool
    ) async throws -> HealthServer {
        guard let (host, port) = address(text) else { throw CLIError.usage("--health \(text) is not an address:port.") }
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                        try channel.pipeline.syncOperations.addHandler(Handler(timeout, isReady))
                    }
                }
                .bind(host: host, port: port).get()
            return HealthServer(channel)
        } catch {
            let other = error is SocketAddressError.UnknownHost ? "no such host" : "\(error)"
            let reason = (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? other
            throw CLIError.system(
                "--health \(text) cannot be used: \(reason). Choose another address or port."
            )
        }
    }

    func stop() async throws { try await channel.close() }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let timeout: TimeAmount
        private let isReady: @Sendable () -> Bool
        private var path = ""
        private var end: Scheduled<Void>?

        init(_ timeout: TimeAmount, _ isReady: @escaping @Sendable () -> Bool) {
            self.timeout = timeout
            self.isReady = isReady
        }

        func handlerAdded(context: ChannelHandlerContext) {
            let channel = context.channel
            end = channel.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
        }

        func handlerRemoved(context: ChannelHandlerContext) { end?.cancel() }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): path = head.uri
            case .body: break
            case .end: answer(context)
            }
        }

        private func answer(_ context: ChannelHandlerContext) {
            let (status, text): (HTTPResponseStatus, String) =
                switch path {
                case "/live": (.ok, "live\n")
                case "/ready": isReady() ? (.ok, "ready\n") : (.serviceUnavailable, "Redis does not answer\n")
                default: (.notFound, "/live or /ready\n")
                }
            let body = context.channel.allocator.buffer(string: text)
            let headers = HTTPHeaders([
                ("content-type", "text/plain"), ("content-length", String(body.readableBytes)), ("connection", "close"),
            ])
            let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
            let channel = context.channel
            context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
        }
    }
}
