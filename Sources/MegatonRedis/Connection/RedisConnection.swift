import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// One connection, usable until its first failure. `RedisConnector` creates connections that are greeted and
/// authenticated.
///
/// `Sendable` because its only state, the handler, is bound to the channel's event loop and accessed only there.
final class RedisConnection: Sendable {
    private let channel: any Channel
    private let handler: NIOLoopBound<RedisChannelHandler>

    private init(channel: any Channel, handler: NIOLoopBound<RedisChannelHandler>) {
        self.channel = channel
        self.handler = handler
    }

    var isActive: Bool { channel.isActive }

    /// Connects without sending any command.
    ///
    /// - Parameters:
    ///   - tls: for TCP only.
    ///   - timeout: for the connection, including the lookup of the name.
    static func open(
        _ endpoint: RedisEndpoint,
        tls: NIOSSLContext?,
        timeout: TimeAmount,
        on loop: any EventLoop
    ) async throws -> RedisConnection {
        let handlers = Handlers()
        let channel = try await connect(endpoint, handlers, tls: tls, timeout: timeout, on: loop).get()
        guard let handler = handlers.handler(of: channel) else { throw ChannelError.inappropriateOperationForState }
        return RedisConnection(channel: channel, handler: handler)
    }

    /// The handlers of the channels with which one connection is tried: a name may have several addresses.
    ///
    /// A channel that fails at once, for example in its TLS handshake, has lost its handler when the caller would look
    /// for it, and the handler knows the reason.
    private final class Handlers: Sendable {
        private let all = Mutex<[ObjectIdentifier: NIOLoopBound<RedisChannelHandler>]>([:])

        func add(_ handler: NIOLoopBound<RedisChannelHandler>, of channel: any Channel) {
            all.withLock { $0[ObjectIdentifier(channel)] = handler }
        }

        func handler(of channel: any Channel) -> NIOLoopBound<RedisChannelHandler>? {
            all.withLock { $0[ObjectIdentifier(channel)] }
        }
    }

    // Linux values of options for which NIO has no names (tcp(7)): seconds, seconds, probes, milliseconds.
    private static let tcp: SocketOptionLevel = 6
    private static let keepIdle: SocketOptionName = 4
    private static let keepInterval: SocketOptionName = 5
    private static let keepCount: SocketOptionName = 6
    private static let userTimeout: SocketOptionName = 18

    private static func connect(
        _ endpoint: RedisEndpoint,
        _ handlers: Handlers,
        tls: NIOSSLContext?,
        timeout: TimeAmount,
        on loop: any EventLoop
    ) -> EventLoopFuture<any Channel> {
        let bootstrap = ClientBootstrap(group: loop).connectTimeout(timeout).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                if let tls, case .tcp(let host, _) = endpoint {
                    // An address cannot be a server name (RFC 6066 section 3); the certificate is still checked.
                    let name = (try? SocketAddress(ipAddress: host, port: 0)) == nil ? host : nil
                    try channel.pipeline.syncOperations.addHandler(
                        NIOSSLClientHandler(context: tls, serverHostname: name)
                    )
                }
                let handler = RedisChannelHandler()
                handlers.add(NIOLoopBound(handler, eventLoop: channel.eventLoop), of: channel)
                try channel.pipeline.syncOperations.addHandler(handler)
            }
        }
        switch endpoint {
        case .unix(let path):
            return bootstrap.connect(unixDomainSocketPath: path)
        case .tcp(let host, let port):
            // A dead peer is detected within 10 s while data is in flight, and within 30 s while the connection is
            // idle.
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

    /// Writes the commands together and returns their replies; error replies are returned as values.
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

    /// Makes the connection a subscriber's: from now on every reply goes to `onPush`, on the event loop.
    func subscribe(
        to channels: [String],
        onPush: @escaping @Sendable ([RedisValue]) -> Void
    ) async throws(RedisError) {
        channel.eventLoop.execute { [handler] in handler.value.onPush = onPush }
        let command = RedisCommand(["SUBSCRIBE"] + channels.map { .string($0) })
        _ = try await send([command], deadline: .distantFuture)
    }

    /// Returns once the connection has closed.
    func waitForClose() async {
        // An error matters only to the callers with pending commands, which have received it.
        try? await channel.closeFuture.get()
    }

    func close() { channel.close(promise: nil) }

    /// A description for people of why a connection failed.
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

/// The address to connect to, after the sentinels were asked.
enum RedisEndpoint: Sendable, Hashable, CustomStringConvertible {
    case tcp(host: String, port: Int)
    case unix(path: String)

    /// A command that starts a Redis there, for messages.
    var start: String {
        switch self {
        case .tcp(_, let port): "redis-server --port \(port)"
        case .unix(let path): "redis-server --port 0 --unixsocket \(path)"
        }
    }

    var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): path
        }
    }
}
