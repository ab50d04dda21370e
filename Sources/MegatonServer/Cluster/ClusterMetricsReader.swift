internal import Foundation
package import Logging
package import MegatonCluster
internal import MegatonCore
import Synchronization

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
        let logged = LoggedNames()
        answer = RecentAnswer(every: Self.interval) {
            let result = await TimeLimit.run(Self.timeLimit) { () -> Result<ClusterMetrics.Reading, any Error> in
                do {
                    return .success(try await ClusterMetrics.read(try await inspector()))
                } catch {
                    return .failure(error)
                }
            }
            switch result {
            case .success(let reading):
                if logged.change(to: reading.missing) {
                    logger.warning(
                        "metrics are left out, as keys of the queue have another type; megaton doctor names them",
                        metadata: ["metrics": "\(reading.missing.joined(separator: " "))"]
                    )
                }
                return reading.families + [MetricFamily(ClusterMetrics.up, 1)]
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

/// The metrics that the log has as left out, so that they have one line and not one for each scrape.
private final class LoggedNames: Sendable {
    private let names = Mutex<[String]>([])

    /// - Returns: whether the new names need a line.
    func change(to new: [String]) -> Bool {
        names.withLock { names in
            defer { names = new }
            return !new.isEmpty && new != names
        }
    }
}
