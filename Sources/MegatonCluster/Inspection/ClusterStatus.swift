/// What a queue looks like at one moment. The numbers are read in one round trip, not in one instant.
public struct ClusterStatus: Sendable, Codable, Equatable {
    /// Pushed and not looked at yet.
    public var intake = 0
    /// Taken by a coordinator and not admitted yet.
    public var staged = 0
    /// Can be claimed.
    public var ready = 0
    /// Have a lease.
    public var running = 0
    /// Will be tried again.
    public var delayed = 0
    /// Failed for good.
    public var dead = 0
    /// Since the queue was made.
    public var done = 0
    /// Since the queue was made.
    public var failed = 0
    /// Since the queue was made.
    public var cancelled = 0
    /// Attempts that are to be repeated, since the queue was made.
    public var retried = 0
    /// Leases that ran out, since the queue was made.
    public var stalled = 0
    /// `paused` (nothing is claimed) and `drain` (nothing is taken from the intakes), where they are set.
    public var brakes: [String] = []
    /// Batches that are known.
    public var batches = 0
    /// Whether anything was ever pushed to the queue or any process has worked on it: false may mean a mistyped name.
    public var isKnown = false
    /// `host:pid:random` of the leader, if there is one.
    public var leader: String?
    public var workers: [Worker] = []

    /// One worker.
    public struct Worker: Sendable, Codable, Equatable {
        public var name: String
        /// Jobs in hand at the last sign of life.
        public var running: Int
        /// Seconds since the last sign of life, by Redis' clock.
        public var silent: Double
        /// Seconds between two signs, as it has said itself.
        public var renewal: Double
    }

    /// The workers that have given a sign of life of late: no more than two are missing. The others died or hang.
    public var livingWorkers: [Worker] { workers.filter { $0.silent <= 3 * $0.renewal } }
}
