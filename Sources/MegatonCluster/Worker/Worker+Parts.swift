internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

extension Worker {
    /// What the workers of a cluster share, where there is a cache Redis.
    static func sharedCache(
        _ configuration: Configuration,
        _ name: String,
        _ group: any EventLoopGroup,
        _ logger: Logger,
        _ statistics: StatisticsRecorder,
        _ history: History
    ) -> (RedisClient?, InFlightLock?) {
        guard let address = configuration.cache, configuration.cachePolicy != .storeNothing else { return (nil, nil) }
        let client = RedisClient(address, role: "cache", group: group, logger: logger, isPatient: false)
        let cache = RedisDataCache(.init(), redis: client, logger: logger, statistics: statistics)
        let lock = InFlightLock(
            cache: cache,
            owner: name,
            lease: configuration.flightLease,
            negatives: NegativePolicy(),
            group: group,
            logger: logger,
            statistics: statistics,
            history: history,
            keepsPartials: true
        )
        return (client, lock)
    }

    static func pipeline(
        _ configuration: Configuration,
        flights: InFlightLock?,
        gate: HostGate,
        statistics: StatisticsRecorder,
        logger: Logger
    ) throws -> ImagePipeline {
        let urlPolicy = urlPolicy(configuration)
        var loader = DataLoader.Configuration()
        loader.urlPolicy = urlPolicy
        loader.addressPolicy = configuration.addressPolicy
        loader.credentials = configuration.credentials
        loader.s3 = configuration.s3
        loader.timeout = configuration.fetchTimeout
        loader.lowSpeedTime = configuration.stallTimeout
        loader.connectTimeout = configuration.connectTimeout
        var pipeline = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        pipeline.originGate = gate
        pipeline.didRefresh = { url, cost in statistics.add(cost, of: url) }
        if let flights {
            pipeline.flights = flights
            pipeline.resumableDataCache = flights.cache.forPartials()
        }
        pipeline.dataCache = configuration.dataCache
        pipeline.fileAccess = FileAccess(roots: configuration.roots)
        pipeline.urlPolicy = urlPolicy
        pipeline.types = configuration.types
        pipeline.renderLimits = configuration.renderLimits
        pipeline.memoryBudget = configuration.memory
        pipeline.dataCachePolicy = configuration.cachePolicy
        pipeline.renderEngine = configuration.renderEngine
        pipeline.fetchConcurrency = max(32, configuration.concurrency)
        if let count = configuration.renderConcurrency { pipeline.renderConcurrency = count }
        pipeline.logger = logger
        return ImagePipeline(configuration: pipeline)
    }

    private static func urlPolicy(_ configuration: Configuration) -> URLPolicy {
        var policy = URLPolicy(sources: configuration.sources)
        let hasS3 = configuration.credentials.credentials.contains { credential in
            if case .s3 = credential.method { true } else { false }
        }
        if hasS3 || configuration.s3.url != nil { policy.schemes.insert("s3") }
        return policy
    }

    /// About the worker, for `megaton status`.
    static func info(_ configuration: Configuration) -> WorkerInfo {
        let process = ProcessInfo.processInfo
        return WorkerInfo(
            host: process.hostName,
            pid: Int(process.processIdentifier),
            started: Int(Date().timeIntervalSince1970),
            concurrency: configuration.concurrency,
            version: Megaton.version,
            renewal: configuration.renewInterval.inSeconds
        )
    }

    static func poison(_ job: ClaimedJob) -> ImagePipeline.Error {
        ImagePipeline.Error(
            .renderFailed,
            "\(job.stalls) workers died or fell silent with this job; it is set aside. Look at its source before it is "
                + "requeued.",
            isRetryable: false
        )
    }

    /// What an attempt adds to its batch.
    static func counters(_ counts: PipelineMetrics.Counts, _ result: JobRunner.Result?) -> [String: Int] {
        var counters = [
            "origin_fetches": counts.originFetches, "renders": counts.renders, "bytes_fetched": counts.bytesIn,
        ]
        if case .done(let outputs) = result {
            counters["renditions"] = outputs.count
            counters["cache_hits"] = outputs.count { $0.from == .cache }
        }
        return counters
    }
}
