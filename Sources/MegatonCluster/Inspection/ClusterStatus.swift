/// Snapshot of a queue. The numbers are read in one round trip, but not atomically.
public struct ClusterStatus: Sendable, Codable, Equatable {
    /// Jobs that were pushed and that no coordinator has read yet.
    public var intake = 0
    /// Jobs that a coordinator has taken and not admitted yet.
    public var staged = 0
    /// Jobs that can be claimed.
    public var ready = 0
    /// Jobs with a lease.
    public var running = 0
    /// Jobs that will be retried.
    public var delayed = 0
    /// Jobs that wait until their host takes another request.
    public var held = 0
    /// Hosts for which they wait.
    public var heldHosts = 0
    /// Jobs that failed permanently.
    public var dead = 0
    /// Jobs done since the queue was created.
    public var done = 0
    /// Jobs failed since the queue was created.
    public var failed = 0
    /// Jobs cancelled since the queue was created.
    public var cancelled = 0
    /// Attempts that led to a retry, since the queue was created.
    public var retried = 0
    /// Leases that expired, since the queue was created.
    public var stalled = 0
    /// Modes that pause the queue: `paused` (nothing is claimed), `drain` (nothing is taken from the intakes).
    public var pauses: [String] = []
    /// Known batches.
    public var batches = 0
    /// Whether a job was ever pushed to the queue or a process has ever worked on it: false may mean a mistyped name.
    public var isKnown = false
    /// `host:pid:random` of the leader, if there is one.
    public var leader: String?
    /// Workers that have signed on and not signed off.
    public var workers: [Worker] = []

    private enum CodingKeys: String, CodingKey {
        case intake, staged, ready, running, delayed, dead, done, failed, cancelled, retried, stalled, batches, isKnown
        case leader, workers, held
        case heldHosts = "held_hosts"
        case pauses = "brakes"
    }

    /// One worker.
    public struct Worker: Sendable, Codable, Equatable {
        /// `host:pid:random`.
        public var name: String
        /// Jobs it was running at its last heartbeat.
        public var running: Int
        /// Seconds since the last heartbeat, by Redis' clock.
        public var silent: Double
        /// Seconds between two heartbeats, as the worker reported.
        public var renewal: Double
    }

    /// Workers that have missed at most two heartbeats. The others died or hang.
    public var livingWorkers: [Worker] { workers.filter { $0.silent <= 3 * $0.renewal } }
}
