internal import MegatonCluster
package import MegatonCore
internal import MegatonRedis

/// All metrics of Megaton, as `docs/metrics.md` lists them.
package enum MetricCatalog {
    /// Those that an HTTP server counts about itself with swift-metrics.
    package static let ofServers =
        RedisMetrics.descriptions + RequestMetrics.descriptions + ImageMetrics.descriptions
        + PipelineCounters.descriptions + MemoryGauges.descriptions

    /// Those that a coordinator counts about itself with swift-metrics.
    package static let ofCoordinators = RedisMetrics.descriptions + AdmissionMetrics.descriptions

    /// Those that a worker counts; it may lead in the place of a coordinator.
    package static let ofWorkers =
        ofCoordinators + JobMetrics.descriptions + PipelineCounters.descriptions + WorkerGauges.descriptions

    /// All, also those of the process and of the cluster that are read when they are asked for.
    package static let all =
        ProcessMetrics.descriptions + ofWorkers + RequestMetrics.descriptions + ImageMetrics.descriptions
        + ClusterMetrics.descriptions
}
