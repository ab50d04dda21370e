import Logging
import NIOCore
import Synchronization

/// The topology of a cluster as far as this client knows it, and one connection to each master that it has used.
///
/// It decides when to ask for the topology again: after a redirect, after a node could not be reached, and once a
/// minute while commands are sent. At most one request runs at a time, at most ten a second, and with growing delays
/// while no node answers. ``ClusterRouter`` decides which command goes where, and when it is repeated.
final class ClusterNodes: Sendable {
    private struct State {
        var topology: ClusterTopology?
        var clients: [RedisEndpoint: RedisServerClient] = [:]
        /// Connections to nodes that are no longer masters, until their commands in flight have ended.
        var departed: [ObjectIdentifier: (client: RedisServerClient, timer: Scheduled<Void>)] = [:]
        var refresh: (task: Task<Void, Never>, end: EventLoopFuture<Void>)?
        /// Time of the last answer.
        var refreshed: NIODeadline?
        var backoff = Backoff()
        /// The error of the last refresh; nil if it succeeded.
        var failure: RedisError?
        /// The slot of the first command with a key. Commands without keys go to its master: their replies, such as
        /// TIME, then belong to the data that this client uses.
        var home: Int?
        var waits: Bool
        var failsFast = false
        var isClosed = false
    }

    private static let maximumAge: TimeAmount = .seconds(60)
    private static let minimumInterval: TimeAmount = .milliseconds(100)
    /// Time for which the connection to a node stays open after the node has ceased to be a master, so that commands in
    /// flight end.
    private static let grace: TimeAmount = .seconds(30)

    private let configuration: RedisConfiguration
    private let name: String
    private let group: any EventLoopGroup
    private let logger: Logger
    private let discovery: ClusterDiscovery
    private let state: Mutex<State>

    init(
        _ configuration: RedisConfiguration,
        name: String,
        group: any EventLoopGroup,
        logger: Logger,
        waitsForReconnect: Bool
    ) {
        self.configuration = configuration
        self.name = name
        self.group = group
        self.logger = logger
        discovery = ClusterDiscovery(configuration, name: name, group: group)
        state = Mutex(State(waits: waitsForReconnect))
    }

    /// Whether a command waits, within its timeout, for a node that cannot be reached.
    var waits: Bool { state.withLock { $0.waits && !$0.isClosed } }

    /// The masters, in an order that changes only with their addresses.
    var masters: [RedisEndpoint] {
        state.withLock { Array($0.topology?.masters ?? []) }.sorted { $0.description < $1.description }
    }

    // MARK: - Nodes

    /// The master of a slot.
    ///
    /// - Parameter slot: nil for a command without keys.
    /// - Returns: nil if no node serves the slot.
    func master(of slot: Int?) -> RedisEndpoint? {
        state.withLock { state in
            if state.home == nil { state.home = slot }
            guard let wanted = slot ?? state.home else { return state.topology?.masters.randomElement() }
            let master = state.topology?.master(of: wanted)
            return slot == nil ? master ?? state.topology?.masters.randomElement() : master
        }
    }

    /// The connection to a node, which is made if there is none.
    func client(at node: RedisEndpoint) throws(RedisError) -> RedisServerClient {
        let client = state.withLock { state -> RedisServerClient? in
            if state.isClosed { return nil }
            if let client = state.clients[node] { return client }
            // It does not wait for its node, since another may have taken the slots over: the router waits.
            let client = RedisServerClient(
                configuration.node(node),
                name: name,
                group: group,
                logger: logger,
                waitsForReconnect: false
            )
            if state.failsFast { client.failFast() }
            state.clients[node] = client
            return client
        }
        guard let client else { throw Self.closed }
        return client
    }

    // MARK: - Topology

    /// Returns once the topology is known, and begins to ask for it again if it is old.
    func prepare(before deadline: NIODeadline) async throws(RedisError) {
        let (isKnown, isOld) = state.withLock { state in
            (state.topology != nil, state.refreshed.map { $0 + Self.maximumAge < .now() } ?? true)
        }
        if isKnown {
            if isOld { refreshSoon() }
            return
        }
        while true {
            let (hasFailed, waits) = state.withLock { ($0.failure, $0.waits) }
            do throws(RedisError) {
                let end = try refresh()
                if let hasFailed, !waits { throw hasFailed }
                return try await end.value(before: deadline)
            } catch {
                let isLast = !waits || NIODeadline.now() >= deadline || Task.isCancelled
                if isLast || !error.isTransient {
                    throw error == .connectingTookTooLong ? state.withLock { $0.failure } ?? error : error
                }
            }
        }
    }

    /// Asks for the topology, whether it is known or not.
    ///
    /// - Parameter deadline: limits the wait, not the request, which other callers share.
    func discover(before deadline: NIODeadline) async throws(RedisError) {
        try await refresh().value(before: deadline)
    }

    /// Begins to ask for the topology, unless a request runs already.
    func refreshSoon() {
        // A closed client needs no topology, and the failure of the request is reported to its waiters.
        _ = try? refresh()
    }

    /// Notes a MOVED error, and asks for the rest of the topology: slots rarely move alone.
    func move(_ slot: Int, to node: RedisEndpoint) {
        state.withLock { $0.topology?.move(slot, to: node) }
        refreshSoon()
    }

    /// Returns the end of the running request, or begins one.
    private func refresh() throws(RedisError) -> EventLoopFuture<Void> {
        let end = state.withLock { state -> EventLoopFuture<Void>? in
            if state.isClosed { return nil }
            if let refresh = state.refresh { return refresh.end }
            let pause = state.refreshed.map { max(.zero, Self.minimumInterval - (NIODeadline.now() - $0)) } ?? .zero
            let delay = state.failure.map { state.backoff.next(after: $0) } ?? .nanoseconds(pause.nanoseconds)
            // Unstructured because several callers wait for the task and none owns it. It is bounded by the delay and
            // the connect timeout, and cancelled by `close`.
            let promise = group.next().makePromise(of: Void.self)
            let task = promise.completeWithTask { try await self.refreshOnce(after: delay) }
            state.refresh = (task, promise.futureResult)
            return promise.futureResult
        }
        guard let end else { throw Self.closed }
        return end
    }

    private func refreshOnce(after delay: Duration) async throws {
        do {
            if delay > .zero { try await Task.sleep(for: delay) }
            let (connection, topology) = try await discovery.ask()
            connection.close()
            accept(topology)
        } catch {
            let failure =
                error as? RedisError
                ?? RedisError(.unreachable, "The Redis Cluster is unreachable, and this client no longer waits for it.")
            let (isFirst, isClosed) = state.withLock { state in
                state.refresh = nil
                defer { state.failure = failure }
                return (state.failure == nil, state.isClosed)
            }
            if isClosed { throw Self.closed }
            if isFirst { logger.warning("cannot reach the Redis Cluster", metadata: ["error": "\(failure)"]) }
            throw failure
        }
    }

    /// Takes a new topology in, and closes the connections to nodes that are no longer masters in a while.
    func accept(_ topology: ClusterTopology) {
        let hasChanged = state.withLock { state -> Bool in
            let hasChanged = state.topology != nil && state.topology != topology
            state.topology = topology
            state.refresh = nil
            state.refreshed = .now()
            state.failure = nil
            state.backoff.reset()
            if state.isClosed { return false }
            for (node, client) in state.clients where !topology.masters.contains(node) {
                state.clients[node] = nil
                let timer = group.next().scheduleTask(in: Self.grace) { [weak self] in
                    client.close()
                    self?.state.withLock { $0.departed[ObjectIdentifier(client)] = nil }
                }
                state.departed[ObjectIdentifier(client)] = (client, timer)
            }
            return hasChanged
        }
        if hasChanged {
            logger.debug(
                "the topology of the Redis Cluster has changed",
                metadata: ["masters": "\(topology.masters.count)"]
            )
        }
    }

    // MARK: - The end

    func failFast() {
        let (clients, refresh) = state.withLock { state in
            state.waits = false
            state.failsFast = true
            // A request that follows no failure may succeed.
            return (Array(state.clients.values), state.failure == nil ? nil : state.refresh?.task)
        }
        refresh?.cancel()
        for client in clients { client.failFast() }
    }

    func close() {
        let (clients, timers, refresh) = state.withLock { state in
            state.isClosed = true
            defer { (state.clients, state.departed) = ([:], [:]) }
            let departed = state.departed.values
            return (state.clients.values + departed.map(\.client), departed.map(\.timer), state.refresh?.task)
        }
        refresh?.cancel()
        for timer in timers { timer.cancel() }
        for client in clients { client.close() }
    }

    private static let closed = RedisError(.closed, "The Redis client was closed.")
}
