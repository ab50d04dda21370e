internal import Foundation
internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

extension Worker {
    /// Single-flight lock of the shared cache; nil without a cache Redis.
    static func sharedCache(
        _ configuration: Configuration,
        owner: String,
        group: any EventLoopGroup,
        logger: Logger,
        statistics: StatisticsRecorder,
        history: History
    ) -> InFlightLock? {
        if configuration.caches.isEmpty { return nil }
        var limits = RedisDataCache.Configuration()
        limits.temporaryDirectory = configuration.temporaryDirectory
        let cache = RedisDataCache(
            limits,
            servers: configuration.caches,
            group: group,
            logger: logger,
            statistics: statistics
        )
        return InFlightLock(
            cache: cache,
            owner: owner,
            lease: configuration.flightLease,
            negatives: NegativePolicy(),
            group: group,
            logger: logger,
            statistics: statistics,
            history: history,
            keepsPartials: true
        )
    }

    /// The limits of the hosts that a shard keeps.
    static func limiter(
        _ configuration: Configuration,
        _ queue: JobQueue,
        statistics: StatisticsRecorder,
        history: History,
        logger: Logger
    ) -> HostRateLimiter {
        HostRateLimiter(
            redis: queue.redis,
            keys: queue.keys,
            limits: configuration.hostLimits,
            logger: logger,
            statistics: statistics,
            history: history
        )
    }

    /// - Parameter checksAddresses: whether the addresses in URLs, and those that entries and failures of the cache
    ///   came from, are checked. Otherwise only the loader checks addresses.
    static func pipeline(
        _ configuration: Configuration,
        flights: InFlightLock?,
        limiter: HostLimiters,
        statistics: StatisticsRecorder,
        checksAddresses: Bool = true,
        logger: Logger
    ) -> ImagePipeline {
        var urlPolicy = urlPolicy(configuration)
        if !checksAddresses { urlPolicy.addresses = nil }
        var loader = DataLoader.Configuration()
        loader.urlPolicy = urlPolicy
        loader.addressPolicy = configuration.addressPolicy
        loader.credentials = configuration.credentials
        loader.s3 = configuration.s3
        loader.caFile = configuration.caFile
        loader.maximumBodySize = configuration.maximumDataSize
        loader.timeout = configuration.fetchTimeout
        // As many as the worker fetches at a time: a request that waits for a connection could time out.
        loader.maximumHostConnections = max(loader.maximumHostConnections, configuration.maximumJobs)
        loader.maximumConnections = max(loader.maximumConnections, configuration.maximumJobs)
        loader.lowSpeedTime = configuration.stallTimeout
        loader.connectTimeout = configuration.connectTimeout
        var pipeline = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        pipeline.fetchLimiter = limiter
        let counters = PipelineCounters()
        pipeline.didRefresh = { url, cost in
            statistics.add(cost, of: url)
            counters.count(cost)
        }
        if let flights {
            pipeline.flights = flights
            pipeline.resumableDataCache = flights.cache.forPartials()
        }
        pipeline.dataCache = configuration.dataCache
        pipeline.nearCacheTTL = configuration.nearCacheTTL
        pipeline.fileAccess = configuration.fileAccess
        pipeline.urlPolicy = urlPolicy
        pipeline.types = configuration.types
        pipeline.maximumDataSize = configuration.maximumDataSize
        pipeline.renderLimits = configuration.renderLimits
        // A waiter must not give up before the render that it waits for has used its time.
        pipeline.waitBudget = max(pipeline.waitBudget, configuration.renderLimits.time)
        pipeline.memoryBudget = configuration.memory
        pipeline.temporaryDirectory = configuration.temporaryDirectory
        pipeline.dataCachePolicy = configuration.cachePolicy
        pipeline.heuristicLifetime = configuration.heuristicLifetime
        pipeline.renderEngine = configuration.renderEngine
        pipeline.watermarks = configuration.watermarks
        pipeline.fetchConcurrency = max(32, configuration.maximumJobs)
        if let count = configuration.renderConcurrency { pipeline.renderConcurrency = count }
        pipeline.logger = logger
        return ImagePipeline(configuration: pipeline)
    }

    /// Writes outputs to S3; nil if no bucket is allowed.
    static func objectOutput(_ configuration: Configuration, logger: Logger) -> ObjectOutput? {
        // Invalid names have been refused: see `Configuration.validationError`.
        let buckets = configuration.outputBuckets.compactMap { try? OutputBucket($0) }
        if buckets.isEmpty { return nil }
        var loader = DataLoader.Configuration()
        loader.urlPolicy.schemes = ["s3"]
        loader.addressPolicy = configuration.addressPolicy
        loader.credentials = configuration.credentials
        loader.s3 = configuration.s3
        loader.caFile = configuration.caFile
        loader.timeout = max(configuration.fetchTimeout, uploadTimeout)
        loader.connectTimeout = configuration.connectTimeout
        // A store that puts the parts of an object together answers nothing meanwhile.
        loader.lowSpeedTime = max(configuration.stallTimeout, uploadTimeout)
        loader.maximumHostConnections = max(loader.maximumHostConnections, configuration.maximumJobs)
        loader.maximumConnections = max(loader.maximumConnections, configuration.maximumJobs)
        // A job's next attempt would have to render again.
        var retries = RetryingDataLoader.Policy()
        let isRetryable = retries.isRetryable
        // 501: the store does not know the request's condition.
        retries.isRetryable = { ($0 as? ImagePipeline.Error)?.status != 501 && isRetryable($0) }
        retries.holdsBody = true
        let store = S3Store(DataLoader(loader), retries: retries)
        return ObjectOutput(store: store, buckets: buckets, endpoint: configuration.s3.name, logger: logger)
    }

    /// Time limit of a request that writes 16 MiB, at 2 Mbit/s.
    private static let uploadTimeout: Duration = .seconds(60)

    private static func urlPolicy(_ configuration: Configuration) -> URLPolicy {
        var policy = URLPolicy(sources: configuration.sources)
        policy.addresses = configuration.addressPolicy
        let hasS3 = configuration.credentials.credentials.contains { credential in
            if case .s3 = credential.method { true } else { false }
        }
        if hasS3 || configuration.s3.url != nil { policy.schemes.insert("s3") }
        return policy
    }

    /// Description of the worker, for `megaton status`.
    static func info(_ configuration: Configuration) -> WorkerInfo {
        let process = ProcessInfo.processInfo
        return WorkerInfo(
            host: process.hostName,
            pid: Int(process.processIdentifier),
            started: Int(Date().timeIntervalSince1970),
            // Only suspects run there: it has no place for ready jobs.
            concurrency: configuration.takesOnlySuspects ? 0 : configuration.concurrency,
            version: Megaton.version,
            renewal: LeaseHeartbeat.interval(configuration.renewInterval, of: configuration.lease).inSeconds,
            lease: configuration.lease.inSeconds,
            space: ProcessSpace.current
        )
    }

    /// Error of a job that is not run again because workers died with it.
    ///
    /// - Parameter isQuarantined: whether its source has killed three processes, in any jobs; otherwise the job itself
    ///   has stalled too often.
    static func poison(_ job: ActiveJob, isQuarantined: Bool) -> ImagePipeline.Error {
        let hours = Int(JobQueue.suspicion.inSeconds / 3600)
        let reason =
            isQuarantined
            ? "Worker processes died \(max(job.deaths, ActiveJob.deathLimit)) times while they processed this image, "
                + "so this queue does not run jobs with this source for \(hours) hours."
            : "\(job.stalls) \(job.stalls == 1 ? "worker" : "workers") died or stopped responding while running this "
                + "job, so it is not run again."
        return ImagePipeline.Error(
            .renderFailed,
            "\(reason) Check the image and the memory of the workers, then run the job again: after a run with "
                + "megaton run --retry-failed, otherwise with megaton dead requeue.",
            isRetryable: false
        )
    }

    static func tooLarge(_ job: ActiveJob) -> ImagePipeline.Error {
        ImagePipeline.Error(
            .invalidURL,
            "The JSON of the job has \(job.excessSize) bytes; a job may have \(Job.maximumSize). "
                + "Submit it with a URL as its source instead of the data itself.",
            isRetryable: false
        )
    }
}
