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
    /// Jobs that wait for a retry, or for the time before which they may not begin.
    public var delayed = 0
    /// Jobs that wait until their host takes another request.
    public var held = 0
    /// Hosts for which they wait.
    public var heldHosts = 0
    /// The intakes that no coordinator reads, as too many jobs are held or delayed: `large_batches`, `public_lists`
    /// (and large batches) or `all`; nil if none.
    package var unreadIntakes: String?
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
    /// Coordinators that have asked for the lead within a minute; one of them may lead.
    package var coordinators: [Coordinator] = []
    /// Processes and jobs of Megaton 0.1 and 0.2 on the same Redis, as parts of a sentence.
    package var former: [String] = []

    /// Jobs of the intakes in the public lists, by priority; the others are in the intakes of batches. For metrics.
    package var publicIntake: [Job.Priority: Int] = [:]
    /// Seconds for which the first lease that has expired has not been swept; 0 if none has. For metrics.
    package var overdueLease: Double = 0

    /// Keys of another type than theirs, which count as empty; nil if none was met.
    package var damagedKeys: [KeyTypes.Damage]?
    /// The shards of the queue; nil if it has one.
    package var shards: [Shard]?

    private enum CodingKeys: String, CodingKey {
        case intake, staged, ready, running, delayed, dead, done, failed, cancelled, retried, stalled, batches, isKnown
        case leader, workers, coordinators, held, shards
        case former = "protocol_1"
        case heldHosts = "held_hosts"
        case unreadIntakes = "unread_intakes"
        case damagedKeys = "damaged_keys"
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
        /// Version of its program; nil if it did not report one.
        package var version: String?
        /// Version of its protocol; nil if it did not report one.
        package var protocolVersion: Int?
        /// Jobs that it runs at a time at most; nil if it did not report it. For metrics.
        package var places: Int?
        /// Why it claims few jobs or none, such as a full disk; nil if it claims as many as it can run.
        public var problem: String?

        private enum CodingKeys: String, CodingKey {
            case name, running, silent, renewal, version, problem
            case protocolVersion = "protocol"
        }

        /// Whether it has missed at most two heartbeats. Otherwise it died or hangs.
        package var isLiving: Bool { WorkerInfo.isLiving(silent: silent, renewal: renewal) }
    }

    /// One coordinator.
    package struct Coordinator: Sendable, Codable, Equatable {
        /// `host:pid:random`.
        package var name: String
        /// Version of its program.
        package var version: String
        /// Version of its protocol.
        package var protocolVersion: Int

        private enum CodingKeys: String, CodingKey {
            case name, version
            case protocolVersion = "protocol"
        }

        /// Reads an entry of `coordinators`: `<name> <protocol> <version>`. Nil if another program wrote it.
        init?(stored text: String) {
            let parts = text.split(separator: " ")
            guard parts.count == 3, let protocolVersion = Int(parts[1]) else { return nil }
            (name, version) = (String(parts[0]), String(parts[2]))
            self.protocolVersion = protocolVersion
        }
    }

    /// Workers that have missed at most two heartbeats. The others died or hang.
    public var livingWorkers: [Worker] { workers.filter(\.isLiving) }

    /// The versions of living processes, and the number of processes of each: `0.3.0, protocol 2`.
    package var versions: [String: Int] {
        var versions: [String: Int] = [:]
        for worker in livingWorkers {
            guard let version = worker.version else { continue }
            versions[Self.version(version, worker.protocolVersion), default: 0] += 1
        }
        for coordinator in coordinators {
            versions[Self.version(coordinator.version, coordinator.protocolVersion), default: 0] += 1
        }
        return versions
    }

    /// The same as clauses, in order: `0.3.0, protocol 2 (3 processes)`.
    package var versionCounts: [String] {
        versions.sorted { $0.key < $1.key }
            .map { "\($0.key) (\($0.value) \($0.value == 1 ? "process" : "processes"))" }
    }

    /// The explanation of `unreadIntakes`; nil if there is none.
    package var intakeWarning: String? {
        let limits = WaitingLimits()
        guard let step = unreadIntakes.flatMap(WaitingLimits.Step.init) else { return nil }
        let (names, remedy) =
            switch step {
            case .largeBatches: ("those of large batches are not read", "Others are.")
            case .publicLists: ("the public lists and those of large batches are not read", "Small batches are.")
            case .all: ("none is read", "Cancel batches, or raise the limits of slow hosts.")
            }
        return "\(names) until fewer jobs are held or delayed: \(held + delayed) are, and the limit is "
            + "\(step.factor * limits.jobs) jobs or \(step.factor * limits.bytes >> 20) MiB. \(remedy)"
    }

    /// The warnings about versions: processes of different versions, and those of protocol 1.
    package var versionWarnings: [String] {
        var warnings: [String] = []
        if versions.count > 1 {
            let named = versionCounts.joined(separator: "; ")
            warnings.append(
                "processes of different versions are running: \(named). Install one version on all machines; see "
                    + "docs/upgrading.md."
            )
        }
        if !former.isEmpty {
            warnings.append(
                "Megaton 0.1 or 0.2 is on this queue, too, and shares no job with this version: "
                    + "\(former.joined(separator: "; ")). To upgrade or to drain it, see docs/upgrading.md."
            )
        }
        return warnings
    }

    /// A version as people read it.
    package static func version(_ program: String, _ protocolVersion: Int?) -> String {
        program + (protocolVersion.map { ", protocol \($0)" } ?? "")
    }
}
