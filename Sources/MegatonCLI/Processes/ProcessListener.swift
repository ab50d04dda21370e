import CoreMetrics
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonServer

/// Health checks and metrics of a process, if `--health` names an address.
struct ProcessListener: Sendable {
    private let address: ListenAddress
    private let registry: PrometheusRegistry
    private let process: ProcessMetrics
    private let logger: Logger

    /// Makes swift-metrics count for this listener. There is one in a process, made before anything that counts.
    ///
    /// - Parameters:
    ///   - address: checked by `StartOptions`.
    ///   - role: `worker` or `coordinator`.
    ///   - expected: the metrics that a process of this role counts.
    init(_ address: ListenAddress, role: String, expected: [MetricDescription], logger: Logger) {
        self.address = address
        self.logger = logger
        registry = PrometheusRegistry(MetricCatalog.all, expected: expected)
        process = ProcessMetrics(version: Megaton.version, role: role)
        MetricsSystem.bootstrap(registry)
    }

    /// Serves while the body runs.
    ///
    /// - Parameters:
    ///   - isReady: called for each request of `/ready`: must not block.
    ///   - metrics: what the process does not count with swift-metrics; called for each request of `/metrics`.
    /// - Throws: `CLIError` if the process cannot listen on the address, and the errors of the body.
    func serve(
        isReady: @escaping @Sendable () -> Bool,
        metrics: @escaping @Sendable () async -> [MetricFamily],
        while body: @escaping @Sendable () async throws -> Void
    ) async throws {
        let listener = Listener(
            address,
            isReady: isReady,
            metrics: { [registry, process] in
                // First, as it may set values that the registry shows.
                let others = await metrics()
                return registry.snapshot() + process.families() + others
            },
            logger: logger
        )
        do {
            try await listener.serve { [address, logger] port in
                // With the port that the system has chosen if it was 0.
                logger.notice("serving health checks and metrics", metadata: ["address": "\(address.with(port: port))"])
                try await body()
            }
        } catch let error as ListenError {
            throw CLIError.system("--health \(error)")
        }
    }
}
