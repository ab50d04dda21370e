/// The names of everything that one queue keeps in the control Redis.
///
/// All of them carry the queue as a hash tag, so that a script's keys share a slot of a Redis Cluster.
public struct QueueKeys: Sendable, Hashable {
    /// The queue's name.
    public let queue: String
    private let prefix: String

    /// - Parameter queue: letters, digits, `.`, `_` and `-`; `default` unless told otherwise.
    public init(queue: String = "default") {
        self.queue = queue
        prefix = "megaton:{\(queue)}:"
    }

    /// Pattern of the keys of all queues, for SCAN; those of the cache have no brace there.
    public static let patternOfAll = "megaton:{*"

    /// Pattern of the failures that a cache remembers, for SCAN.
    public static let patternOfFailures = CacheNames.patternOfNegatives

    // MARK: Intake

    /// LIST, public: `LPUSH` a job's JSON; taken from the right.
    public var jobs: String { prefix + "jobs" }
    /// LIST, a batch's own intake.
    public func jobs(batch: String) -> String { prefix + "jobs:\(batch)" }
    /// ZSET, batches that have an intake of their own, by their weight.
    var intakes: String { prefix + "intakes" }
    /// HASH, batch to what it has left over in the round robin; `` is the public intake.
    var credit: String { prefix + "credit" }
    /// LIST of at most one token: something came in.
    var intakeWake: String { prefix + "intakewake" }
    /// LIST, taken by the leader of an epoch and not admitted yet: `<batch>\0<json>`.
    func stage(epoch: Int) -> String { prefix + "stage:\(epoch)" }
    /// SET of the epochs that have staged.
    var stages: String { prefix + "stages" }

    /// Integer, one more whenever a stage is read or jobs leave it.
    var round: String { prefix + "round" }

    // MARK: Jobs

    // Ids here are the texts of `JobKey`: `<batch>/<id>`, or the id alone of a job without a batch.

    /// HASH, id to the job's JSON.
    var body: String { prefix + "body" }
    /// HASH, id to `attempt|stalls|worker|priority|batch`: the attempt with `+free` if some did not count, the priority with
    /// `@` and the digest of the job's source.
    var meta: String { prefix + "meta" }
    /// LIST of ids that may be claimed.
    func ready(_ priority: Job.Priority) -> String { prefix + "ready:\(priority.rawValue)" }
    /// The three lists, in the order in which they are claimed from.
    var ready: [String] { Job.Priority.allCases.map(ready) }
    /// LIST of ids whose source two processes have died of: each runs in a process of its own.
    var suspects: String { prefix + "suspects" }
    /// ZSET, digest of a source to eight times its expiry in ms, plus the process deaths that it is suspected of.
    var crashes: String { prefix + "crashes" }
    /// ZSET, digest of a suspected source that runs, or `w:` and the worker that starts a process for suspects, to ms.
    var isolating: String { prefix + "isolating" }
    /// LIST of tokens: there is something to claim.
    var wake: String { prefix + "wake" }
    /// ZSET, id to the lease's end in ms: what is running.
    var lease: String { prefix + "lease" }
    /// ZSET, id to when it is due again, ms.
    var delay: String { prefix + "delay" }
    /// ZSET, id to when it died, ms.
    var dead: String { prefix + "dead" }
    /// HASH, id to a `DeadJob` as JSON.
    var deadInfo: String { prefix + "deadinfo" }

    // MARK: Batches

    /// HASH: total submitted closed done failed cancelled deduplicated origin_fetches renders … finished.
    func batch(_ name: String) -> String { prefix + "batch:\(name)" }
    /// ZSET, batch to when it was first seen, ms.
    var batches: String { prefix + "batches" }
    /// SET of batches whose jobs are no longer wanted.
    var cancelled: String { prefix + "cancelled" }
    /// HASH of the jobs that a batch has had, gone when the batch has ended: `i<id>` to `<content>:<state>` for ids that
    /// submitters gave, `d<digest>` to nothing if the batch admits the same only once. The state is how many duplicates
    /// wait while the job is alive; after that its outcome, or `-` if that was not kept.
    func seen(_ batch: String) -> String { prefix + "known:\(batch)" }
    /// SET of digests that earlier versions kept; removed with the batch.
    func formerSeen(_ batch: String) -> String { prefix + "seen:\(batch)" }
    /// LIST of outcomes as JSON, where the batch keeps a ledger.
    func results(_ batch: String) -> String { prefix + "results:\(batch)" }

    // MARK: The cluster

    /// STRING with a time-out: who leads.
    var leader: String { prefix + "leader" }
    /// Integer, one more with each new leader.
    var epoch: String { prefix + "epoch" }
    /// ZSET, worker to its last sign of life, ms.
    var workers: String { prefix + "workers" }
    /// HASH, worker to `<running> <about it, JSON>`.
    var workerInfo: String { prefix + "workerinfo" }
    /// STRING: `total|workers|ms`, the places of all living workers when they were last added up.
    var places: String { prefix + "places" }
    /// HASH: paused (nothing is claimed), drain (nothing is taken from the intakes).
    var control: String { prefix + "control" }
    /// STRING: the last leader's presets, JSON.
    var presets: String { prefix + "presets" }
    /// STRING with a time-out: somebody is sweeping.
    var sweepGate: String { prefix + "sweepgate" }

    // MARK: Politeness

    /// HASH, `host:port` to its state; see `HostScripts`.
    var rate: String { prefix + "rate" }
    /// ZSET of passes to when they are forgotten, ms: the requests that are under way to a host.
    func fetching(_ host: String) -> String { prefix + "fetching:\(host)" }

    // MARK: Statistics

    /// HASH of counters since the queue was made.
    public var stat: String { prefix + "stat" }
    /// HASH, host to requests.
    var statHosts: String { prefix + "stat:hosts" }
    /// HyperLogLog of the originals fetched.
    var statDistinct: String { prefix + "stat:distinct" }
}
