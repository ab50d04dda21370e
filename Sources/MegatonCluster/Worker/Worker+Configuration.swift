public import Foundation
public import MegatonPipeline
public import MegatonRedis

extension Worker {
    /// Limits and times of a worker.
    public struct Configuration: Sendable {
        public var keys = QueueKeys()
        /// Where the jobs are.
        public var control: RedisConfiguration
        /// Where the blobs and flights are; nil works without a shared cache.
        public var cache: RedisConfiguration?
        /// Memory or a disk before the shared cache, or in its place; nil, as by default, is neither. See `LayeredFlights`.
        public var dataCache: (any DataCaching)?
        /// Jobs in hand at a time: most of them wait for an origin or for a render thread.
        public var concurrency = 16
        /// Threads that render.
        public var renderConcurrency: Int?
        /// How long a claimed job is ours without a sign of life.
        public var lease: Duration = .seconds(15)
        /// How often leases are renewed; no less often than three times in a lease, whatever is set here.
        public var renewInterval: Duration = .seconds(5)
        /// How often it is looked for leases that ran out.
        public var sweepInterval: Duration = .seconds(1)
        /// How long what runs may go on after the first signal.
        public var drainTimeout: Duration = .seconds(25)
        /// A job that has cost more workers than this is poison, also if each of them had other jobs in hand.
        public var maximumStalls = 3
        /// Runs a process that takes only suspects (``takesOnlySuspects``), and returns how it ended. Without one, suspects run
        /// in this process, one at a time, beside its other jobs.
        public var isolate: (@Sendable () async throws -> IsolatedProcess)?
        /// Whether the worker takes only jobs whose source two processes have died of, one at a time, and ends when there is
        /// none.
        public var takesOnlySuspects = false
        public var retry = RetryPolicy()
        /// After so long without a leader the worker admits jobs by itself, until a coordinator is there; nil never.
        public var selfAdmitAfter: Duration? = .seconds(5)
        public var flightLease: Duration = .seconds(10)
        /// Where large bodies are while they come: see `ImagePipeline.Configuration.temporaryDirectory`.
        public var temporaryDirectory: URL?
        /// The program's options by the library's settings, such as `--allow-private` by `AddressPolicy.allowsPrivate`:
        /// messages of failed jobs that name the setting name the option too. None by default.
        public var optionNames: [String: String] = [:]
        /// Directories beneath which `file:` sources are read and outputs written.
        public var roots: [String] = []
        /// Directories beneath which `file:` sources are read too, and no output is written.
        public var readRoots: [String] = []
        public var cachePolicy = ImagePipeline.DataCachePolicy.storeAll
        /// How long a response is fresh that names no lifetime: see `ImagePipeline.Configuration.heuristicLifetime`.
        public var heuristicLifetime: Duration = .seconds(24 * 3600)
        /// What makes renditions.
        public var renderEngine = RenderEngineChoice.auto
        public var addressPolicy = AddressPolicy()
        /// Hosts, ports and paths that may be asked; any if empty.
        public var sources: [SourceRule] = []
        /// What is decoded, by its content; what is not among `VipsRuntime.allowed` has to be switched on there too.
        public var types = AssetType.supported
        /// What sources are shown. `s3:` is among the schemes where one of them is for it. All workers of a queue should
        /// have the same: a job that names one a worker does not have fails there for good (`.credentialMissing`).
        public var credentials = Credentials()
        /// Where `s3:` sources are; AWS by default. `s3:` is among the schemes where it is a store of one's own, too.
        public var s3 = S3Endpoint()
        /// For the whole of a fetch, redirects included.
        public var fetchTimeout: Duration = .seconds(20)
        /// For how long a fetch may bring less than 1 KiB a second; whole seconds, 1 or more.
        public var stallTimeout: Duration = .seconds(10)
        /// Until a connection stands, TLS included.
        public var connectTimeout: Duration = .seconds(5)
        /// How hard the cluster may ask one host. All workers of a queue should have the same.
        public var hostLimits = HostLimits()
        /// Where each claim, end, fetch and flight is written down; nil nowhere.
        public var history: HistoryFile?
        /// Of a render; one that has lasted three times as long hangs in a codec, and the process must go.
        public var renderLimits = RenderLimits()
        /// Which damage of a source is an error, for jobs that do not say so.
        public var failOn = Rendition.FailOn.truncated
        /// What pictures may take at a time.
        public var memory = MemoryBudget.process

        public init(control: RedisConfiguration) {
            self.control = control
            cache = control
        }

        var fileAccess: FileAccess { FileAccess(roots: roots + readRoots, outputRoots: roots) }
    }

    /// How a process for suspects ended.
    public struct IsolatedProcess: Sendable {
        public let pid: Int32
        /// Whether it ended by itself, having done what there was.
        public let isSuccess: Bool

        public init(pid: Int32, isSuccess: Bool) {
            self.pid = pid
            self.isSuccess = isSuccess
        }
    }
}
