import Foundation
import NIOCore
import NIOPosix

/// A client of a ``FaultProxy`` and its connection to the upstream.
///
/// Confined to the client channel's event loop, which is the upstream channel's too.
final class FaultConnection {
    enum Side {
        case client, upstream
    }

    private enum Phase {
        /// Accepted; connects to the upstream once the link is not a black hole.
        case waiting
        case connecting
        case connected
        /// The client is gone, and the upstream was not notified.
        case ghost
        case ended
    }

    private let client: any Channel
    private let target: FaultProxy.Upstream
    private let registry: FaultRegistry
    private let toUpstream = FaultPipe()
    private let toClient = FaultPipe()
    private var phase = Phase.waiting
    private var isSilent = false
    private var upstream: (any Channel)?
    private var id: Int?
    /// The client's address. Stored, because a channel that has ended no longer knows it, while its data may still be
    /// held.
    private var address: String?

    init(_ client: any Channel, to target: FaultProxy.Upstream, _ registry: FaultRegistry) {
        self.client = client
        self.target = target
        self.registry = registry
    }

    func start() {
        address = client.remoteAddress?.ipAddress
        id = registry.add(NIOLoopBound(self, eventLoop: client.eventLoop))
        if id == nil { end() } else { refresh() }
    }

    /// Continues after new bytes, free room, changed settings, or a timer.
    func refresh() {
        if isSilent || registry.settings.holds(address) { return }
        switch phase {
        case .waiting: connect()
        case .connected:
            guard let upstream else { return }
            drive(toUpstream, from: client, to: upstream)
            drive(toClient, from: upstream, to: client)
        case .connecting, .ghost, .ended: break
        }
    }

    func read(_ bytes: ByteBuffer, from side: Side) {
        if phase == .ghost || phase == .ended { return }
        let pipe = side == .client ? toUpstream : toClient
        pipe.append(bytes, after: registry.settings.latency)
        if pipe.isFull, let source = side == .client ? client : upstream { setPaused(true, pipe, source) }
        refresh()
    }

    /// Handles the end of one side's channel.
    func ended(_ side: Side) {
        if side == .client, let id { registry.removeClient(id) }
        switch phase {
        case .waiting: end()
        case .connecting, .connected:
            (side == .client ? toUpstream : toClient).finish(after: registry.settings.latency)
            refresh()
        case .ghost: if side == .upstream { end() }
        case .ended: break
        }
    }

    /// Ends the connection after `count` more bytes from the upstream.
    func tear(after count: Int) {
        if count > 0 { toClient.tear(after: count) } else { end() }
    }

    func silence() { isSilent = true }

    /// Ends both sides.
    ///
    /// - Parameter reset: whether to send RST instead of FIN.
    func end(reset: Bool = false) {
        if phase == .ended { return }
        phase = .ended
        toUpstream.discard()
        toClient.discard()
        Self.close(client, reset: reset)
        if let upstream { Self.close(upstream, reset: reset) }
        if let id { registry.remove(id) }
    }

    /// Resets the client, and leaves the upstream side open.
    func becomeGhost() {
        guard phase == .connected, let upstream, upstream.isActive else {
            if phase != .ghost { end(reset: true) }
            return
        }
        phase = .ghost
        toUpstream.discard()
        toClient.discard()
        // Data that the server still sends stays in the kernel, as if the host were gone.
        setPaused(true, toClient, upstream)
        Self.close(client, reset: true)
    }

    func endGhost() {
        if phase == .ghost { end() }
    }

    private func connect() {
        phase = .connecting
        let bound = NIOLoopBound(self, eventLoop: client.eventLoop)
        let bootstrap = ClientBootstrap(group: client.eventLoop).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(FaultHandler(bound.value, .upstream))
            }
        }
        let future =
            switch target {
            case .tcp(let host, let port):
                bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1).connect(host: host, port: port)
            case .unix(let path): bootstrap.connect(unixDomainSocketPath: path)
            }
        future.assumeIsolated().whenComplete { [self] result in
            switch result {
            case .success(let channel): connected(channel)
            case .failure: end(reset: true)
            }
        }
    }

    private func connected(_ channel: any Channel) {
        guard phase == .connecting else {
            channel.close(promise: nil)
            return
        }
        upstream = channel
        phase = .connected
        refresh()
    }

    private func drive(_ pipe: FaultPipe, from source: any Channel, to destination: any Channel) {
        guard phase == .connected else { return }
        pipe.timer?.cancel()
        switch pipe.pump(to: destination, registry.settings) {
        case .idle: break
        case .later(let time):
            pipe.timer = client.eventLoop.assumeIsolated().scheduleTask(deadline: time) { [weak self] in
                guard let self else { return }
                self.refresh()
            }
        case .over:
            // An empty write completes after all writes before it.
            destination.writeAndFlush(ByteBuffer()).assumeIsolated().whenComplete { [self] _ in end() }
        }
        if phase == .connected, !pipe.isFull { setPaused(false, pipe, source) }
    }

    private func setPaused(_ isPaused: Bool, _ pipe: FaultPipe, _ source: any Channel) {
        if pipe.isPaused == isPaused { return }
        pipe.isPaused = isPaused
        // Fails on a channel that has ended, which reads no more anyway.
        try? source.syncOptions?.setOption(.autoRead, value: !isPaused)
    }

    private static func close(_ channel: any Channel, reset: Bool) {
        guard reset, let options = channel as? any SocketOptionProvider else {
            channel.close(promise: nil)
            return
        }
        // With a linger time of 0, closing the socket sends RST.
        options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in channel.close(promise: nil) }
    }
}
