internal import Foundation
package import Logging
package import MegatonCluster
internal import MegatonCore

/// Reads the metrics of the cluster for scrapes: at most once in ``interval``, however many scrapers ask, so that they
/// cost the control Redis next to nothing.
package struct ClusterMetricsReader: Sendable {
    /// Shortest time between two readings.
    static let interval: Duration = .seconds(1)
    /// Time after which a scrape is answered without the values of the cluster. Prometheus waits 10 s by default.
    static let timeLimit: Duration = .seconds(5)

    private let answer: RecentAnswer<[MetricFamily]>

    /// - Parameter inspector: called for each reading: the shards of a queue are known only after the start.
    package init(_ inspector: @escaping @Sendable () async throws -> Inspector, logger: Logger) {
        answer = RecentAnswer(every: Self.interval) {
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
    }

    /// The metrics of the cluster; only ``ClusterMetrics/up`` if the control Redis does not answer.
    package func families() async -> [MetricFamily] { await answer.value() }
}
