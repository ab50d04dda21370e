internal import Foundation
package import Logging
package import MegatonCluster
internal import MegatonCore

/// Reads the metrics of the cluster for scrapes: at most once in ``interval``, however many scrapers ask, so that they
/// cost the control Redis next to nothing.
package actor ClusterMetricsReader {
    /// Shortest time between two readings.
    static let interval: Duration = .seconds(1)
    /// Time after which a scrape is answered without the values of the cluster. Prometheus waits 10 s by default.
    static let timeLimit: Duration = .seconds(5)

    private let inspector: @Sendable () async throws -> Inspector
    private let logger: Logger
    private var last: (families: [MetricFamily], at: ContinuousClock.Instant)?
    /// The reading that runs now, for which later scrapes wait.
    private var reading: Task<[MetricFamily], Never>?

    /// - Parameter inspector: called for each reading: the shards of a queue are known only after the start.
    package init(_ inspector: @escaping @Sendable () async throws -> Inspector, logger: Logger) {
        self.inspector = inspector
        self.logger = logger
    }

    /// The metrics of the cluster; only ``ClusterMetrics/up`` if the control Redis does not answer.
    package func families() async -> [MetricFamily] {
        if let last, last.at.duration(to: .now) < Self.interval { return last.families }
        if let reading { return await reading.value }
        // Unstructured, as scrapes at the same time share it: a scraper that gives up must not end it for the others.
        // It is safe because it ends by itself within the time limit and touches no state of this actor.
        let task = Task { [inspector, logger] in
            let result = await TimeLimit.run(Self.timeLimit) { () -> Result<[MetricFamily], any Error> in
                do {
                    return .success(try await ClusterMetrics.read(try await inspector()))
                } catch {
                    return .failure(error)
                }
            }
            switch result {
            case .success(let families): return families + [MetricFamily(ClusterMetrics.up, 1)]
            case .failure(let error):
                logger.debug("the metrics of the cluster cannot be read", metadata: ["error": "\(error)"])
            case nil: logger.debug("the metrics of the cluster are missing, as the control Redis is too slow")
            }
            return [MetricFamily(ClusterMetrics.up, 0)]
        }
        reading = task
        let families = await task.value
        (reading, last) = (nil, (families, .now))
        return families
    }
}
