import Foundation
import NIOCore
import NIOPosix
import NIOSSL

/// One connection, good until the first failure. `RedisConnector` makes those that are greeted and authenticated.
///
/// `Sendable` because its only state, the handler, is bound to the channel's event loop and touched only there.
final class RedisConnection: Sendable {
    private let channel: any Channel
    private let handler: NIOLoopBound<RedisChannelHandler>

    private init(channel: any Channel, handler: NIOLoopBound<RedisChannelHandler>) {
        self.channel = channel
        self.handler = handler
    }

    var isActive: Bool { channel.isActive }

    /// Connects; nothing has been said yet.
    ///
    /// - Parameters:
    ///   - tls: for TCP only.
    ///   - timeout: of the connect, the look-up of the name included.
    static func open(
        _ endpoint: RedisEndpoint,
        tls: NIOSSLContext?,
        timeout: TimeAmount,
        on loop: any EventLoop
    ) async throws -> RedisConnection {
        let channel = try await connect(endpoint, tls: tls, timeout: timeout, on: loop).get()
        let handler = try await loop.submit {
            NIOLoopBound(
                try channel.pipeline.syncOperations.handler(type: RedisChannelHandler.self),
                eventLoop: loop
            )
        }.get()
        return RedisConnection(channel: channel, handler: handler)
    }

    // Linux' numbers for options that NIO has no name for (tcp(7)): seconds, seconds, probes, milliseconds.
    private static let tcp: SocketOptionLevel = 6
    private static let keepIdle: SocketOptionName = 4
    private static let keepInterval: SocketOptionName = 5
    private static let keepCount: SocketOptionName = 6
    private static let userTimeout: SocketOptionName = 18

    private static func connect(
        _ endpoint: RedisEndpoint,
        tls: NIOSSLContext?,
        timeout: TimeAmount,
        on loop: any EventLoop
    ) -> EventLoopFuture<any Channel> {
        let bootstrap = ClientBootstrap(group: loop).connectTimeout(timeout).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                if let tls, case .tcp(let host, _) = endpoint {
                    // A literal address cannot be a server name (RFC 6066 section 3); the certificate is still checked.
                    let name = (try? SocketAddress(ipAddress: host, port: 0)) == nil ? host : nil
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: tls, serverHostname: name)
                    )
                }
                try channel.pipeline.syncOperations.addHandler(RedisChannelHandler())
            }
        }
        switch endpoint {
        case .unix(let path):
            return bootstrap.connect(unixDomainSocketPath: path)
        case .tcp(let host, let port):
            // A dead peer is noticed within 10 s while data is in flight, and within 30 s while there is none.
            return
                bootstrap
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.socketOption(.so_keepalive), value: 1)
                .channelOption(.socket(tcp, keepIdle), value: 15)
                .channelOption(.socket(tcp, keepInterval), value: 5)
                .channelOption(.socket(tcp, keepCount), value: 3)
                .channelOption(.socket(tcp, userTimeout), value: 10_000)
                .connect(host: host, port: port)
        }
    }

    /// Writes the commands in one go and returns their replies, errors among them as values.
    func send(_ commands: [RedisCommand], deadline: NIODeadline) async throws(RedisError) -> [RedisValue] {
        let promise = channel.eventLoop.makePromise(of: [RedisValue].self)
        channel.eventLoop.execute { [handler] in
            handler.value.send(commands, deadline: deadline, promise: promise)
        }
        do {
            return try await promise.futureResult.get()
        } catch let error as RedisError {
            throw error
        } catch {
            throw RedisError(.connectionClosed, "The connection to Redis failed: \(error)")
        }
    }

    /// Turns the connection into a subscriber's: from now on every reply goes to `onPush`, on the event loop.
    func subscribe(
        to channels: [String],
        onPush: @escaping @Sendable ([RedisValue]) -> Void
    ) async throws(RedisError) {
        channel.eventLoop.execute { [handler] in handler.value.onPush = onPush }
        let command = RedisCommand(["SUBSCRIBE"] + channels.map { .string($0) })
        _ = try await send([command], deadline: .distantFuture)
    }

    /// Returns once the connection has ended.
    func waitForClose() async {
        // Only tells that it is over; why is of no interest here, whoever used it was told.
        try? await channel.closeFuture.get()
    }

    func close() { channel.close(promise: nil) }

    /// Why a connection could not be made, for people.
    static func describe(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { describe($0.error) } ?? "the name \(error.host) has no address"
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout: "no answer in time"
        default: "\(error)"
        }
    }
}
