import Foundation
public import NIOCore
import NIOPosix
import Synchronization

/// A TCP proxy on its own loopback port that injects network faults: latency, low bandwidth, a black hole, a split
/// network, cuts, half-open connections, refusals.
///
/// It forwards bytes without parsing them, so TLS passes too. A FIN or RST of one side reaches the other as FIN after
/// the bytes. The kernels on both sides acknowledge the bytes that the proxy reads: a black hole affects the programs,
/// but not TCP's own timeouts.
public final class FaultProxy: Sendable {
    /// The server behind the proxy.
    public enum Upstream: Sendable {
        case tcp(host: String, port: Int)
        case unix(path: String)
    }

    private let upstream: Upstream
    private let reservation: PortReservation
    private let registry = FaultRegistry()
    /// Nil while connections are refused.
    private let listener = Mutex<(any Channel)?>(nil)

    /// Starts a proxy. It connects to the upstream for each client connection, and not before.
    public static func start(to upstream: Upstream) async throws -> FaultProxy {
        let proxy = FaultProxy(upstream, try PortReservation())
        try await proxy.listen()
        return proxy
    }

    /// Starts a proxy, runs the body, and stops the proxy.
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

    /// Lets the listener share the port with the socket that reserves it. NIO has no name for the option.
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

    /// URL of a Redis behind the proxy.
    public var url: String { "redis://127.0.0.1:\(port)" }

    /// Number of open client connections.
    public var connections: Int { registry.clientCount }

    /// Returns once there are at least `count` client connections.
    public func waitForConnections(_ count: Int) async { await registry.waitForClients(count) }

    /// Delays each piece in each direction from now on. The order is preserved.
    public func setLatency(_ delay: TimeAmount) { registry.change { $0.latency = delay } }

    /// Limits the bandwidth in each direction of each connection; nil removes the limit.
    public func setBandwidth(bytesPerSecond: Int?) { registry.change { $0.bandwidth = bytesPerSecond } }

    /// Holds all bytes in both directions, and even ends of connections; new connections are accepted and hang.
    /// Once switched off, held bytes pass, even those of clients that have disconnected since.
    public func blackHole(_ isOn: Bool) { registry.change { $0.isBlackHole = isOn } }

    /// Holds all bytes of the current connections for ever, and even their ends; later connections are served. It is as
    /// if a load balancer had lost one of its hosts.
    public func silence() { registry.forEach { $0.silence() } }

    /// A black hole for clients that connect from this address, while all others are served: a split network. Nil ends
    /// it.
    public func split(from address: String?) { registry.change { $0.splitFrom = address } }

    /// Closes all current connections on both sides, with RST or with FIN.
    public func cut(reset: Bool = true) { registry.forEach { $0.end(reset: reset) } }

    /// Closes each current connection once `count` more bytes went from its upstream to its client: a truncated reply.
    /// It uses FIN, so that the client receives these bytes for certain. Later connections are not affected.
    public func cut(afterBytes count: Int) { registry.forEach { $0.tear(after: count) } }

    /// Resets the current clients, while their upstream sides stay open and silent: half-open connections for the
    /// server.
    public func halfOpen() { registry.forEach { $0.becomeGhost() } }

    /// Closes the connections that ``halfOpen()`` left.
    public func endGhosts() { registry.forEach { $0.endGhost() } }

    /// Makes the kernel refuse new connections (ECONNREFUSED); accepting and then closing them would look like a
    /// reachable server. Current connections stay.
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

    /// Stops the proxy and closes all connections.
    public func stop() {
        registry.change { $0.isStopped = true }
        registry.forEach { $0.end() }
        let channel = listener.withLock { $0 }
        channel?.close(promise: nil)
    }
}
