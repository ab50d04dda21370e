public import Foundation
public import MegatonPipeline
package import MegatonRedis
public import Tracing

extension Worker {
    /// Limits and times of a worker.
    public struct Configuration: Sendable {
        package var keys = QueueKeys()
        /// Redis that holds the jobs.
        package var control: RedisConfiguration
        /// Redis servers of the queue's other shards, if it is on several; see `QueueAddress`.
        package var furtherControls: [RedisConfiguration] = []
        /// Redis servers that hold the cached blobs and the single flights, each a share of the keys; none for work
        /// without a shared cache.
        package var caches: [RedisConfiguration]
        /// Memory or disk cache in front of the shared cache, which notifies it of deletions, or in its place; nil, the
        /// default, for neither.
        public var dataCache: (any DataCaching)?
        /// Time to live of entries in `dataCache` before the shared cache is asked again: see
        /// `ImagePipeline.Configuration.nearCacheTTL`.
        package var nearCacheTTL: Duration = .seconds(60)
        /// Jobs in progress at a time, at least 1: most of them wait for an origin or for a render thread. Up to three
        /// times as many are in progress beside them while their images take a second to arrive, or far longer than
        /// others.
        public var concurrency = 16
        /// Jobs in progress at a time with those whose images take long to arrive.
        package var maximumJobs: Int { concurrency * (1 + FleetPlaces.longFetchesOfPlace) }
        /// Number of threads that render, at least 1; nil for the pipeline's default.
        public var renderConcurrency: Int?
        /// Lease of a claimed job: how long the worker keeps it without a heartbeat. At least a second.
        public var lease: Duration = .seconds(15)
        /// Interval between lease renewals; never longer than a third of the lease, whatever is set here.
        package var renewInterval: Duration = .seconds(5)
        /// Interval between sweeps for expired leases.
        package var sweepInterval: Duration = .seconds(1)
        /// How long running jobs may continue after the first signal.
        public var drainTimeout: Duration = .seconds(25)
        /// Stalls that a job may have. A job that has cost more workers than this is poison, even if each of them held
        /// other jobs too.
        package var maximumStalls = 3
        /// Runs a process that takes only suspects (`takesOnlySuspects`), and returns how it ended. If nil, suspects
        /// run in this process, one at a time, beside its other jobs.
        package var isolate: (@Sendable () async throws -> IsolatedProcess)?
        /// Whether the worker takes only jobs whose source two processes have died of, one at a time, and ends when
        /// none is left.
        package var takesOnlySuspects = false
        /// Delays between the attempts of a job.
        public var retry = RetryPolicy()
        /// Whether jobs that find this worker's disk full go back to the queue, and the worker claims none for a while;
        /// otherwise they fail. False for the workers of `run`, which share their disk.
        package var waitsForDisk = true
        /// Time without a leader after which the worker admits jobs by itself, until a coordinator is there; nil for
        /// never.
        public var takeoverDelay: Duration? = .seconds(5)
        package var flightLease: Duration = .seconds(10)
        /// Directory for large bodies while they are downloaded: see `ImagePipeline.Configuration.temporaryDirectory`.
        public var temporaryDirectory: URL?
        /// Words in the place of those about the library's settings, such as `--allow-private` for
        /// `AddressPolicy.allowsPrivate`: messages of failed jobs name the program's options. Empty by default.
        package var optionNames: [String: String] = [:]
        /// Directories below which `file:` sources may be read and outputs written.
        public var roots: [String] = []
        /// Directories below which `file:` sources may be read, but no output is written.
        public var readRoots: [String] = []
        /// Buckets that outputs may be written to, `bucket` or `bucket/prefix`, with the credential without a name that
        /// is for the object.
        public var outputBuckets: [String] = []
        /// Which data the shared cache stores.
        public var cachePolicy = ImagePipeline.DataCachePolicy.storeReused
        /// Whether another job, admitted and not ended, names the source of this one, whose original is then stored in
        /// the shared cache although nothing has needed it twice. Jobs that fetch only store it in any case.
        package var isSourceShared: @Sendable (Job) -> Bool = { _ in false }
        /// How long a response without an explicit lifetime is fresh: see
        /// `ImagePipeline.Configuration.heuristicLifetime`.
        public var heuristicLifetime: Duration = .seconds(24 * 3600)
        /// Images that watermarks of renditions may name; none by default. All workers of a queue should have the same:
        /// a job that names a watermark that its worker lacks fails for good (`.watermarkMissing`).
        public var watermarks: Watermarks?
        /// The engine that renders.
        public var renderEngine = RenderEngineChoice.auto
        /// Addresses that may be requested; no private ones by default.
        public var addressPolicy = AddressPolicy()
        /// Hosts, ports and paths that may be requested; any if empty.
        public var sources: [SourceRule] = []
        /// Types that may be decoded, detected by content. A type outside `VipsRuntime.allowed` must be enabled there
        /// too.
        public var types = AssetType.supported
        /// Credentials for sources. The scheme `s3:` is allowed if one of them is for S3. All workers of a queue should
        /// have the same: a job that names a credential that its worker lacks fails for good (`.credentialMissing`).
        public var credentials = Credentials()
        /// Endpoint of `s3:` sources; AWS by default. The scheme `s3:` is also allowed if another endpoint is set.
        public var s3 = S3Endpoint()
        /// PEM file with certificates of authorities for `https:` sources and the store of `s3`; nil for the system's.
        /// See `DataLoader.Configuration.caFile`.
        public var caFile: String?
        /// Time-out of a whole fetch, including redirects.
        public var fetchTimeout: Duration = .seconds(20)
        /// How long a fetch may deliver less than 1 KiB per second; whole seconds, at least 1.
        public var stallTimeout: Duration = .seconds(10)
        /// Time-out for establishing a connection, including TLS.
        public var connectTimeout: Duration = .seconds(5)
        /// Rate and concurrency limits for each host. All workers of a queue should have the same.
        public var hostLimits = HostLimits()
        /// File that records each claim, settlement, fetch and flight; nil for none.
        package var history: HistoryFile?
        /// Maximum size of a source in bytes, fetched or read from a file. The shared cache stores no entry above 32
        /// MiB.
        package var maximumDataSize = ImagePipeline.Configuration.defaultMaximumDataSize
        /// Limits of a render. One that takes three times its limit of time hangs in a codec, and the process must end.
        public var renderLimits = RenderLimits()
        /// Damage of a source that is an error, for jobs that do not specify it.
        public var failOn = Rendition.FailOn.truncated
        /// Memory that images may occupy at a time.
        public var memory = MemoryBudget.process
        /// Tracer of the spans of jobs; nil, the default, for the one that the process has bootstrapped with
        /// `InstrumentationSystem`, if it has one. See <doc:Architecture>.
        public var tracer: (any Tracer)?

        /// Defaults for everything except the Redis servers.
        ///
        /// - Parameters:
        ///   - redis: URL of the control Redis, which holds the jobs; see
        ///     ``ClusterClient/init(redis:queue:idleTimeout:logger:)``. Without `cacheRedis` it is the cache too, with
        ///     all of its servers if it names several.
        ///   - cacheRedis: URL of the cache Redis; the control Redis if nil.
        ///   - queue: the queue's name.
        /// - Throws: ``ClusterError`` if a URL or the name of the queue is invalid.
        public init(redis: String, cacheRedis: String? = nil, queue: String = "default") throws {
            try self.init(
                redis: redis,
                cacheRedis: cacheRedis.map { [$0] } ?? ClusterError.urls(redis),
                queue: queue
            )
        }

        /// Defaults for everything except the Redis servers, with a cache on several of them.
        ///
        /// - Parameters:
        ///   - redis: URL of the control Redis.
        ///   - cacheRedis: URLs of the cache Redis, in any order; each holds a share of the entries. All workers of the
        ///     cache name the same ones. If empty, the workers share no cache.
        ///   - queue: the queue's name.
        /// - Throws: ``ClusterError`` if a URL or the name of the queue is invalid, or a cache Redis is named twice.
        public init(redis: String, cacheRedis: [String], queue: String = "default") throws {
            let servers = try ClusterError.servers(redis)
            self.init(control: servers[0])
            furtherControls = Array(servers.dropFirst())
            caches = try CacheNodes.servers(cacheRedis)
            keys = try ClusterError.keys(queue)
        }

        package init(control: RedisConfiguration) {
            self.control = control
            caches = [control]
        }

        /// The reason why no worker can run with these values; nil if one can.
        var validationError: String? {
            if concurrency < 1 { return "A worker's concurrency must be at least 1, not \(concurrency)." }
            if let renderConcurrency, renderConcurrency < 1 {
                return "A worker's renderConcurrency must be at least 1, not \(renderConcurrency)."
            }
            for bucket in outputBuckets {
                do throws(JobError) { _ = try OutputBucket(bucket) } catch { return "outputBuckets: \(error.message)." }
            }
            if lease < .seconds(1) { return "A worker's lease must be at least 1 second, not \(lease)." }
            return nil
        }

        /// The queue and its servers.
        var address: QueueAddress { QueueAddress([control] + furtherControls, queue: keys.queue) }

        var fileAccess: FileAccess { FileAccess(roots: roots + readRoots, outputRoots: roots) }
    }

    /// Result of a process for suspects.
    package struct IsolatedProcess: Sendable {
        package let pid: Int32
        /// Whether it ended by itself, with no suspects left.
        package let isSuccess: Bool

        package init(pid: Int32, isSuccess: Bool) {
            self.pid = pid
            self.isSuccess = isSuccess
        }
    }
}
