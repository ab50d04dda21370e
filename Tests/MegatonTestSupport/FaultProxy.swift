import Foundation
public import NIOCore
import NIOPosix
import Synchronization

/// A TCP proxy on a loopback port of its own that makes the faults of a network: delay, a narrow link, a black hole,
/// a split, cuts, ghosts, refusals.
///
/// It passes bytes and knows nothing of what they mean, so that TLS goes through it too. A FIN or a RST of one side
/// reaches the other as FIN behind the bytes. The kernels of both sides acknowledge what the proxy reads: a black hole is
/// one for the programs, not for the time-outs of TCP itself.
public final class FaultProxy: Sendable {
    /// The server behind it.
    public enum Upstream: Sendable {
        case tcp(host: String, port: Int)
        case unix(path: String)
    }

    private let upstream: Upstream
    private let reservation: PortReservation
    private let registry = FaultRegistry()
    /// nil while connections are refused.
    private let listener = Mutex<(any Channel)?>(nil)

    /// Starts one. The upstream is called for each connection, not before.
    public static func start(to upstream: Upstream) async throws -> FaultProxy {
        let proxy = FaultProxy(upstream, try PortReservation())
        try await proxy.listen()
        return proxy
    }

    /// Starts one, runs the body, and stops it.
    public static func run<Value>(
        to upstream: Upstream,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (FaultProxy) async throws -> Value
    ) async throws -> Value {
        let proxy = try await start(to: upstream)
        do {
            let value = try await body(proxy)
            proxy.stop()
            return value
        } catch {
            proxy.stop()
            throw error
        }
    }

    private init(_ upstream: Upstream, _ reservation: PortReservation) {
        self.upstream = upstream
        self.reservation = reservation
    }

    /// Beside the socket that keeps the port. NIO has no name for the option.
    private static let reusePort = NIOBSDSocket.Option(rawValue: SO_REUSEPORT)

    private func listen() async throws {
        let (upstream, registry) = (upstream, registry)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.socketOption(Self.reusePort), value: 1)
            .serverChannelOption(.backlog, value: 512)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let connection = FaultConnection(channel, to: upstream, registry)
                    try channel.pipeline.syncOperations.addHandler(FaultHandler(connection, .client))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        listener.withLock { $0 = channel }
    }

    public var port: Int { reservation.port }

    /// For a Redis behind it.
    public var url: String { "redis://127.0.0.1:\(port)" }

    /// Open client connections.
    public var connections: Int { registry.clientCount }

    /// Returns when there are at least so many client connections.
    public func waitForConnections(_ count: Int) async { await registry.waitForClients(count) }

    /// Each piece waits so long from now on, in each direction. Their order stays.
    public func setLatency(_ delay: TimeAmount) { registry.change { $0.latency = delay } }

    /// How much passes in each direction of each connection; nil for no limit.
    public func setBandwidth(bytesPerSecond: Int?) { registry.change { $0.bandwidth = bytesPerSecond } }

    /// Nothing passes in either direction, not even an end; new connections are accepted and hang. When it is healed,
    /// what was held passes, also from clients that have gone since.
    public func blackHole(_ isOn: Bool) { registry.change { $0.isBlackHole = isOn } }

    /// A black hole for the clients that call from this address, while all others go on: a network that is split. nil
    /// heals it.
    public func split(from address: String?) { registry.change { $0.splitFrom = address } }

    /// Ends the connections there are on both sides, with RST or with FIN.
    public func cut(reset: Bool = true) { registry.forEach { $0.end(reset: reset) } }

    /// Ends each connection there is once so many more bytes went from its upstream to its client: a torn reply. With
    /// FIN, so that the client certainly gets these bytes. Later connections are left alone.
    public func cut(afterBytes count: Int) { registry.forEach { $0.tear(after: count) } }

    /// Resets the clients there are, while their upstream sides stay open and silent: ghosts for the server.
    public func halfOpen() { registry.forEach { $0.becomeGhost() } }

    /// Ends what ``halfOpen()`` left.
    public func endGhosts() { registry.forEach { $0.endGhost() } }

    /// New connections are refused by the kernel (ECONNREFUSED): a connection that is accepted and then closed has been
    /// reached. Those there are stay.
    public func refuse(_ isOn: Bool) async throws {
        if isOn {
            let channel = listener.withLock { listener in
                defer { listener = nil }
                return listener
            }
            try await channel?.close().get()
        } else if listener.withLock({ $0 == nil }), !registry.settings.isStopped {
            try await listen()
        }
    }

    /// Ends everything.
    public func stop() {
        registry.change { $0.isStopped = true }
        registry.forEach { $0.end() }
        let channel = listener.withLock { $0 }
        channel?.close(promise: nil)
    }
}
