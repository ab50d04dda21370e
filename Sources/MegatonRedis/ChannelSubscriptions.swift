package import Logging
internal import MegatonCore
package import NIOCore
import Synchronization

/// Channels that a process listens to only while something in it waits for their messages.
///
/// The connection is opened for the first channel, and reopened after a failure. Messages that are published before a
/// channel is active are lost, as pub/sub of Redis has no delivery guarantee: a caller checks the state once
/// `onSubscribed` reports its channel, and polls at intervals besides. To the server, a channel without listeners costs
/// nothing, and a message costs as much as it has listeners.
package final class ChannelSubscriptions: Sendable {
    private struct State {
        /// Number of listeners by channel.
        var listeners: [String: Int] = [:]
        /// Channels that have got or lost their listeners since the last command.
        var changed: Set<String> = []
        /// Channels that the connection has subscribed to.
        var requested: Set<String> = []
        /// Number of confirmations that the connection still expects, by channel.
        var unconfirmed: [String: Int] = [:]
        /// Whether the connection has subscribed to anything with success.
        var hasSubscribed = false

        /// Whether messages of the channel arrive.
        func isActive(_ channel: String) -> Bool { requested.contains(channel) && unconfirmed[channel] == nil }

        /// The channels of the next commands.
        mutating func takeChanges() -> (added: [String], removed: [String]) {
            let added = changed.filter { listeners[$0] != nil && !requested.contains($0) }
            let removed = changed.filter { listeners[$0] == nil && requested.contains($0) }
            changed = []
            for channel in added {
                requested.insert(channel)
                unconfirmed[channel, default: 0] += 1
            }
            requested.subtract(removed)
            return (added.sorted(), removed.sorted())
        }

        /// - Returns: whether the channel is active now.
        mutating func confirm(_ channel: String) -> Bool {
            let left = (unconfirmed[channel] ?? 1) - 1
            unconfirmed[channel] = left > 0 ? left : nil
            hasSubscribed = true
            return isActive(channel)
        }

        /// The connection is gone, and its subscriptions with it.
        mutating func disconnect() {
            (changed, requested, unconfirmed, hasSubscribed) = (Set(listeners.keys), [], [:], false)
        }
    }

    private let connect: @Sendable () async throws(RedisError) -> RedisConnection
    private let logger: Logger
    private let onSubscribed: @Sendable (_ channel: String) -> Void
    private let onMessage: @Sendable (_ channel: String, _ message: String) -> Void
    private let state = Mutex(State())
    private let hasChanged = AsyncSignal()

    /// - Parameters:
    ///   - configuration: in a cluster any node is subscribed to, because each receives what is published at the
    ///     others.
    ///   - onSubscribed: called each time a channel becomes active, on an event loop; must not block.
    ///   - onMessage: as `onSubscribed`.
    package init(
        _ configuration: RedisConfiguration,
        group: any EventLoopGroup,
        logger: Logger,
        onSubscribed: @escaping @Sendable (_ channel: String) -> Void,
        onMessage: @escaping @Sendable (_ channel: String, _ message: String) -> Void
    ) {
        let name = "megaton:subscriber"
        switch configuration.address {
        case .tcp, .unix, .sentinel:
            let connector = RedisConnector(configuration, name: name, group: group)
            connect = { () async throws(RedisError) in try await connector.connect() }
        case .cluster:
            let discovery = ClusterDiscovery(configuration, name: name, group: group)
            connect = { () async throws(RedisError) in try await discovery.ask().connection }
        }
        self.logger = logger
        self.onSubscribed = onSubscribed
        self.onMessage = onMessage
    }

    /// Adds a listener to a channel. Each call needs a call of `unsubscribe(from:)`.
    ///
    /// - Returns: whether the channel is active already; otherwise `onSubscribed` reports when it is, if ``run()`` is
    ///   active and Redis can be reached.
    package func subscribe(to channel: String) -> Bool {
        let (isFirst, isActive) = state.withLock { state in
            let count = (state.listeners[channel] ?? 0) + 1
            state.listeners[channel] = count
            if count == 1 { state.changed.insert(channel) }
            return (count == 1, state.isActive(channel))
        }
        if isFirst { hasChanged.signal() }
        return isActive
    }

    /// Removes a listener from a channel.
    package func unsubscribe(from channel: String) {
        let isLast = state.withLock { state in
            guard let count = state.listeners[channel] else { return false }
            state.listeners[channel] = count > 1 ? count - 1 : nil
            if count == 1 { state.changed.insert(channel) }
            return count == 1
        }
        if isLast { hasChanged.signal() }
    }

    /// Listens until the task is cancelled.
    package func run() async {
        var backoff = Backoff()
        await repeating {
            if state.withLock({ $0.listeners.isEmpty }) {
                await hasChanged.wait()
                return .zero
            }
            do {
                // A connection whose channels were refused is no success: it would be repeated without end at the
                // shortest delay.
                if try await listen() { backoff.reset() }
                return backoff.next(after: nil)
            } catch {
                logger.debug("a subscription ended; subscribing again", metadata: ["error": "\(error)"])
                return backoff.next(after: error)
            }
        }
    }

    /// Listens until the connection closes.
    ///
    /// - Returns: whether the server has accepted a channel.
    private func listen() async throws -> Bool {
        let connection = try await connect()
        defer { state.withLock { $0.disconnect() } }
        let (first, _) = state.withLock { state in
            state.disconnect()
            return state.takeChanges()
        }
        await withTaskCancellationHandler {
            do {
                if !first.isEmpty {
                    try await connection.subscribe(to: first) { [weak self] push in
                        self?.receive(push, on: connection)
                    }
                    await follow(connection)
                }
            } catch {
                logger.debug("cannot subscribe; trying again", metadata: ["error": "\(error)"])
            }
            connection.close()
        } onCancel: {
            connection.close()
        }
        return state.withLock { $0.hasSubscribed }
    }

    /// Subscribes and unsubscribes as listeners come and go, until the connection closes.
    private func follow(_ connection: RedisConnection) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await connection.waitForClose() }
            group.addTask { [self] in
                while !Task.isCancelled {
                    await hasChanged.wait()
                    let (added, removed) = state.withLock { $0.takeChanges() }
                    var commands: [RedisCommand] = []
                    if !added.isEmpty { commands.append(RedisCommand(["SUBSCRIBE"] + added.map { .string($0) })) }
                    if !removed.isEmpty { commands.append(RedisCommand(["UNSUBSCRIBE"] + removed.map { .string($0) })) }
                    if commands.isEmpty { continue }
                    // It fails only if the connection is closed, which ends the other task.
                    _ = try? await connection.send(commands, deadline: .distantFuture)
                }
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func receive(_ push: [RedisValue], on connection: RedisConnection) {
        if case .error(let text) = push.first {
            // E.g. the ACL does not permit the channel. Close it: a connection that receives nothing would go
            // unnoticed.
            logger.warning("Redis refused a subscription", metadata: ["error": "\(text)"])
            connection.close()
            return
        }
        guard push.count == 3, let channel = push[1].string else { return }
        switch push[0].string {
        case "message": onMessage(channel, push[2].string ?? "")
        case "subscribe":
            if state.withLock({ $0.confirm(channel) }) { onSubscribed(channel) }
        default: break
        }
    }
}
