public import Foundation
import NIOCore
import NIOPosix

/// A server on its own loopback port that answers each request with raw bytes, HTTP or not, and then closes the
/// connection.
public final class RawServer: Sendable {
    private let channel: any Channel

    /// Starts a server, runs the body, and stops the server.
    ///
    /// - Parameter answer: returns the bytes for the first line of a request.
    public static func run<Value>(
        isolation: isolated (any Actor)? = #isolation,
        answer: @escaping @Sendable (String) -> Data,
        _ body: (RawServer) async throws -> Value
    ) async throws -> Value {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RawHandler(answer))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let server = RawServer(channel)
        defer { channel.close(promise: nil) }
        return try await body(server)
    }

    private init(_ channel: any Channel) { self.channel = channel }

    public func url(_ path: String) -> URL {
        var components = URLComponents()
        (components.scheme, components.host) = ("http", "127.0.0.1")
        (components.port, components.percentEncodedPath) = (channel.localAddress?.port ?? 0, path)
        return components.url ?? URL(fileURLWithPath: path)
    }
}

private final class RawHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: @Sendable (String) -> Data
    private var request = ""

    init(_ answer: @escaping @Sendable (String) -> Data) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        request += String(buffer: unwrapInboundIn(data))
        guard request.contains("\r\n\r\n") else { return }
        let line = String(request.prefix { !$0.isNewline })
        request = ""
        let channel = context.channel
        channel.writeAndFlush(ByteBuffer(bytes: answer(line))).whenComplete { _ in channel.close(promise: nil) }
    }
}
