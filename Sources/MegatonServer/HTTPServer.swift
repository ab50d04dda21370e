internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis
internal import NIOCore
internal import ServiceLifecycle

/// The HTTP server of a cluster: the API of jobs, batches and operators, health checks and metrics.
///
/// - `/live` and `/ready` are open to all, and so are the files of the dashboard, which have no data; everything else
///   needs a token with the scope of its route.
/// - The metrics are also on a listener of their own, without a token, if it has an address.
///
/// Limits keep clients from using up the process: ``maximumConnections``, ``firstRequestLimit``, ``idleTimeout``,
/// ``bodyLimit``, ``stalledWriteLimit``, and the size of each body. At a graceful shutdown running requests may end
/// within ``Configuration/drainLimit``; no new connection is accepted meanwhile.
package struct HTTPServer: Service {
    package struct Configuration: Sendable {
        /// The address of the API.
        package var address: ListenAddress
        /// The address of metrics and health checks without a token; nil for none.
        package var metricsAddress: ListenAddress?
        /// How long Redis may be unreachable at the start. Requests are answered with 503 meanwhile.
        package var redisLimit: Duration = .seconds(60)
        /// How long running requests may last after the beginning of a graceful shutdown.
        package var drainLimit: Duration = .seconds(25)

        package init(_ address: ListenAddress) { self.address = address }
    }

    /// Maximum number of open connections, if the limit of open files allows it; others wait in the backlog of the
    /// socket.
    static let maximumConnections = 4_096
    /// Time in which a new connection must send the head of a request.
    static let firstRequestLimit: Duration = .seconds(10)
    /// Time for which a connection may send nothing between two requests, or in the middle of one.
    static let idleTimeout: Duration = .seconds(60)
    /// Time for which the rest of a body is read behind its response, and the last bytes of a response are sent before
    /// its connection is closed.
    static let bodyLimit: Duration = .seconds(30)
    /// Time for which a client may leave bytes of a response unread.
    static let stalledWriteLimit = StalledWriteLimit.usual

    private let configuration: Configuration
    private let metrics: ClusterMetricsReader
    private let process: ProcessMetrics
    private let onListening: @Sendable () -> Void
    let logger: Logger
    let gate: AccessGate
    let cluster: ClusterConnection
    let readiness: ClusterReadiness
    let dashboard: DashboardFeed
    let images: ImageServer?
    let registry: PrometheusRegistry

    /// - Parameters:
    ///   - gate: decides about requests; `.open` only if ``LoopbackRule`` says that no other machine reaches the
    ///     address.
    ///   - cluster: closed at the end of ``run()``.
    ///   - registry: the metrics that the process counts with swift-metrics.
    ///   - images: nil if the server has no route for images.
    ///   - onListening: called when the server listens on its addresses; Redis may be unreachable then.
    package init(
        _ configuration: Configuration,
        gate: AccessGate,
        cluster: ClusterConnection,
        registry: PrometheusRegistry,
        process: ProcessMetrics,
        images: ImageServer? = nil,
        onListening: @escaping @Sendable () -> Void = {},
        logger: Logger
    ) {
        self.configuration = configuration
        self.gate = gate
        self.cluster = cluster
        self.registry = registry
        self.process = process
        self.images = images
        self.onListening = onListening
        self.logger = logger
        metrics = ClusterMetricsReader(
            { try await cluster.inspector() },
            logger: logger
        )
        readiness = ClusterReadiness { try await cluster.queue() }
        dashboard = DashboardFeed(cluster, logger: logger)
    }

    /// The metrics of this process and of the cluster.
    func families() async -> [MetricFamily] {
        let ofCluster = await metrics.families()
        images?.updateGauges()
        return registry.snapshot() + process.families() + ofCluster
    }

    /// Serves until the service group shuts down or the task is cancelled.
    ///
    /// - Throws: ``ListenError``, and the error of a Redis that is unreachable for longer than
    ///   ``Configuration/redisLimit``, or refuses the client.
    package func run() async throws {
        defer { cluster.close() }
        do {
            guard let address = configuration.metricsAddress else { return try await serve() }
            let listener = Listener(
                address,
                isReady: { await readiness.isReady() },
                metrics: { await families() },
                logger: logger
            )
            try await listener.serve { (port) async throws in
                logger.notice("serving metrics", metadata: ["address": "\(address.with(port: port))"])
                try await serve()
            }
        } catch {
            // The errors of a cancelled server say nothing.
            if !Task.isCancelled { throw error }
        }
    }

    private func serve() async throws {
        guard let images else { return try await listen() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await images.run() }
            defer { group.cancelAll() }
            try await listen()
            await images.finish()
        }
    }

    private func listen() async throws {
        let server = GracefulServer(
            address: configuration.address,
            drainLimit: configuration.drainLimit,
            logger: logger.forFramework
        )
        try await server.serve(application) { (port) async throws in
            let address = configuration.address.with(port: port)
            logger.notice("serving HTTP", metadata: ["address": "\(address)"])
            onListening()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await connect()
                    try await gracefulShutdown()
                }
                // The wait for Redis ends with a shutdown too.
                group.addTask { try await gracefulShutdown() }
                group.addTask { await dashboard.run() }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
    }

    /// Connects to the queue, with retries for as long as Redis may be unreachable at the start.
    private func connect() async throws(RedisError) {
        let limit = configuration.redisLimit
        let end = ContinuousClock.now + limit
        var isFirst = true
        _ = try await retrying(until: ContinuousClock.now >= end) { () async throws(RedisError) -> ShardedQueue in
            try await cluster.queue()
        } pauseAfter: { (error: RedisError) -> Duration? in
            guard error.isTransient else { return nil }
            if isFirst {
                logger.notice(
                    "waiting for Redis: it is unreachable",
                    metadata: ["error": "\(error)", "limit": "\(limit)"]
                )
            }
            isFirst = false
            return .seconds(1)
        }
        if !isFirst { logger.notice("Redis answers") }
    }

    /// HTTP/1.1 with the limits of each connection.
    static func connections(stalledWriteLimit: Duration = Self.stalledWriteLimit) -> HTTPServerBuilder {
        .http1(
            configuration: .init(
                additionalChannelHandlers: [
                    HTTP1RulesInstaller(limit: Self.bodyLimit), FirstRequestLimit(Self.firstRequestLimit),
                    StalledWriteLimit(stalledWriteLimit), DepartureNote(),
                ],
                idleTimeout: TimeAmount(Self.idleTimeout)
            )
        )
    }

    private func application(didStart: @escaping @Sendable (Int) -> Void) -> any Service {
        let address = configuration.address
        let connections = OpenFiles.connections(atMost: Self.maximumConnections)
        if connections < Self.maximumConnections {
            logger.warning(
                "the limit of open files allows few connections; raise it (ulimit -Hn, or LimitNOFILE of the unit)",
                metadata: ["connections": "\(connections)"]
            )
        }
        return Application(
            router: router,
            server: Self.connections(),
            configuration: ApplicationConfiguration(
                address: .hostname(address.host, port: address.port),
                availableConnectionsDelegate: .maximum(connections, logger: logger.forFramework)
            ),
            onServerRunning: { didStart($0.localAddress?.port ?? address.port) },
            logger: logger.forFramework
        )
    }
}
