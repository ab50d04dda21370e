/// Names of all keys that one queue uses in the control Redis.
///
/// Each contains the queue as a hash tag, so that the keys of a script share a slot of a Redis Cluster. Those of a
/// shard contain its number too, except shard 0, the only one of most queues. All except the public intakes contain the
/// version of the protocol: processes of another version find none of its jobs.
package struct QueueKeys: Sendable, Hashable {
    /// The queue's name.
    package let queue: String
    /// Number of the shard, from 0.
    package let shard: Int
    private let prefix: String
    private let publicPrefix: String

    /// Version of the protocol: of the keys, of what they hold and of the scripts.
    package static let version = 2

    /// - Parameters:
    ///   - queue: the queue's name, of letters, digits, `.`, `_`, `:` and `-`.
    ///   - shard: number of the shard, from 0; see `ShardLayout`.
    package init(queue: String = "default", shard: Int = 0) {
        self.queue = queue
        self.shard = shard
        publicPrefix = shard == 0 ? "megaton:{\(queue)}:" : "megaton:{\(queue):\(shard)}:"
        prefix = publicPrefix + "\(Self.version):"
    }

    /// Pattern of the keys of all queues, for SCAN; keys of the cache have no brace at this position.
    package static let patternOfAll = "megaton:{*"

    // MARK: Intake

    /// LIST, public: clients `LPUSH` a job's JSON; the coordinator takes from the right.
    package var jobs: String { publicPrefix + "jobs" }
    /// The public intake for jobs of a priority: `jobs`, `jobs:high` and `jobs:bulk`. Protocol 1 has the intakes of
    /// batches called "high" and "bulk" there: their jobs are done, but their batches do not end (docs/upgrading.md).
    package func jobs(_ priority: Job.Priority) -> String {
        priority == .normal ? jobs : publicPrefix + "jobs:\(priority.rawValue)"
    }
    /// LIST, a batch's own intake.
    package func jobs(batch: String) -> String { prefix + "jobs:\(batch)" }
    /// ZSET, batches that have an intake of their own, by their weight.
    var intakes: String { prefix + "intakes" }
    /// HASH, batch to its remaining credit in the round robin and the priority of its last job; ``, `!high` and `!bulk`
    /// are the public intakes, `:1` to `:3` the ready lists, without a priority.
    var credit: String { prefix + "credit" }
    /// LIST of at most one token, which announces pushed jobs.
    var intakeWake: String { prefix + "intakewake" }
    /// LIST of jobs that the leader of an epoch has taken and not admitted yet: `<batch>\0<json>`.
    func stage(epoch: Int) -> String { prefix + "stage:\(epoch)" }
    /// SET of the epochs that have staged.
    var stages: String { prefix + "stages" }

    /// Integer, one higher whenever a stage is read or jobs leave it.
    var round: String { prefix + "round" }

    // MARK: Jobs

    // Ids here are the texts of `JobKey`: `<batch>/<id>`, or only the id for a job without a batch.

    /// HASH, id to the job's JSON.
    var body: String { prefix + "body" }
    /// HASH, id to `attempt|stalls|worker|priority|batch`: the attempt with `+free` if some attempts did not count, the
    /// priority with `@` and the digest of the job's source, and `@` and its host. The digest of a pack is `*` and the
    /// number of its sources.
    var meta: String { prefix + "meta" }
    /// LIST of ids that may be claimed.
    func ready(_ priority: Job.Priority) -> String { prefix + "ready:\(priority.rawValue)" }
    /// The three lists, in the order in which they are claimed from.
    var ready: [String] { Job.Priority.allCases.map(ready) }
    /// LIST of ids whose source two processes have died of: each runs in a process of its own.
    var suspects: String { prefix + "suspects" }
    /// ZSET, digest of a source to eight times its expiry in ms, plus the process deaths that it is suspected of.
    var crashes: String { prefix + "crashes" }
    /// ZSET, digest of a suspected source that is running, or `w:` and a worker that is starting a process for
    /// suspects, to its expiry in ms.
    var isolating: String { prefix + "isolating" }
    /// LIST of wake tokens: there are jobs to claim.
    package var wake: String { prefix + "wake" }
    /// ZSET, id of a running job to the end of its lease, ms.
    var lease: String { prefix + "lease" }
    /// ZSET, id of a delayed job to the time at which it is due, ms.
    var delay: String { prefix + "delay" }
    /// ZSET of the jobs that wait for their host, all with the score 0: `<host>\0<priority><place>\0<id>`.
    var holding: String { prefix + "holding" }
    /// ZSET, host with jobs in `holding` to the time of its next turn, ms.
    var held: String { prefix + "held" }
    /// HASH, host with jobs in `holding` to the µs from one turn to the next, -1 if the host was given up; and the host
    /// with a NUL behind it to the credits of its three priorities, by which they share its turns.
    var pace: String { prefix + "pace" }
    /// HASH, of the jobs in `holding` and `delay`: the bytes of their JSON, and the sources of packs beyond one per
    /// (`packed`).
    var heldBytes: String { prefix + "heldbytes" }
    /// ZSET, id of a dead job to the time of its death, ms.
    var dead: String { prefix + "dead" }
    /// HASH, id to a `DeadLetter.Content` as JSON.
    var deadInfo: String { prefix + "deadinfo" }

    // MARK: Batches

    /// HASH: total submitted closed done failed cancelled deduplicated origin_fetches renders owner … finished.
    func batch(_ name: String) -> String { prefix + "batch:\(name)" }
    /// ZSET, batch to the time at which it was first seen, ms.
    var batches: String { prefix + "batches" }
    /// ZSET, batch to the time at which it ended, or at which its last job came if it has not, ms.
    var ended: String { prefix + "ended" }
    /// SET of batches whose jobs are no longer wanted.
    var cancelled: String { prefix + "cancelled" }
    /// HASH of the jobs that a batch has had, deleted when the batch has ended: `i<id>` to `<content>:<state>` for ids
    /// that submitters gave, `d<digest>` to an empty text if the batch admits equal jobs only once. The state is the
    /// number of waiting duplicates while the job is alive; after that its outcome, or `-` if the outcome was not kept.
    func known(_ batch: String) -> String { prefix + "known:\(batch)" }
    /// LIST of outcomes as JSON, if the batch keeps a ledger: those that no reader has acknowledged.
    func results(_ batch: String) -> String { prefix + "results:\(batch)" }

    /// STRING with a time-out, by the digest of an idempotency key: the id of the job that has it, a line end, and its
    /// outcome as JSON if the job has ended. Of an outcome of more than 2 KiB it is the error alone, or `-` if there is
    /// none.
    func once(_ digest: String) -> String { prefix + "once:\(digest)" }

    /// LIST, the outbox of outcomes that the leader sends to the lists of clients, and moves to the queue of webhooks:
    /// see `OutboxEntry`.
    var replies: String { prefix + "replies" }
    /// ZSET of the lists of clients that could not be reached and have outcomes, all with the score 0.
    var away: String { prefix + "away" }
    /// LIST: the outcomes of such a list, as they were in the outbox.
    func away(_ list: String) -> String { prefix + "away:" + list }
    /// HASH, number of a webhook to `<url>\0<key of the job>\0<outcome>`.
    var webhooks: String { prefix + "webhooks" }
    /// ZSET of the webhooks that wait or are being sent, all with the score 0, by host and due time: see
    /// `ClaimedWebhook.member`.
    var webhookQueue: String { prefix + "webhookqueue" }
    /// ZSET, host with webhooks to the time of its next request, ms, plus 10^14 for each number of its class: 0 for a
    /// host that answers quickly, 1 for one that answers slowly or has not answered yet, 2 after a failure.
    var webhookHosts: String { prefix + "webhookhosts" }
    /// HASH, host with webhooks to their bytes; the host with a NUL behind it to the number of its failures in a row
    /// and the time until which its circuit breaker is open, ms, `0 0` after an answer and `0 0 s` after a slow one;
    /// the empty name to the bytes of all.
    var webhookState: String { prefix + "webhookstate" }
    /// ZSET, host to the time of its last quick answer to a webhook, ms: of the last day, at most 10,000.
    var webhookGood: String { prefix + "webhookgood" }
    /// STRING: the last coordinator's rules for webhooks, JSON; missing if it has no key to sign them with.
    var webhookRules: String { prefix + "webhookrules" }

    // MARK: The cluster

    /// STRING with a time-out: name of the leader.
    var leader: String { prefix + "leader" }
    /// Integer, one higher with each new leader.
    var epoch: String { prefix + "epoch" }
    /// ZSET, `<coordinator> <protocol> <program version>` to its last attempt to lead, ms: those of the last minute.
    var coordinators: String { prefix + "coordinators" }
    /// STRING `<lowest>-<highest>`: the protocols that processes of the queue speak, for processes of all versions.
    var protocolRange: String { publicPrefix + "protocol" }
    /// STRING: this shard's copy of the `ShardLayout`; missing if the queue was never divided.
    var layout: String { prefix + "shards" }
    /// ZSET, worker to its last heartbeat, ms.
    package var workers: String { prefix + "workers" }
    /// HASH, worker to `<running jobs> <its WorkerInfo as JSON>`.
    var workerInfo: String { prefix + "workerinfo" }
    /// STRING `total|workers|ms`: the places of all living workers, the number of workers, and the time of the count.
    var places: String { prefix + "places" }
    /// STRING with a time-out, JSON array: the time from which more jobs of given-up hosts may be made ready, ms, then
    /// the ids of those that were and have not ended.
    var givenUp: String { prefix + "givenup" }
    /// HASH: paused (nothing is claimed), drain (nothing is taken from the intakes).
    var control: String { prefix + "control" }
    /// STRING: the last leader's presets, JSON.
    var presets: String { prefix + "presets" }
    /// STRING with a time-out: a process has swept a moment ago.
    var sweepGate: String { prefix + "sweepgate" }

    // MARK: Protocol 1

    /// Key of protocol 1, that of Megaton 0.1 and 0.2, whose keys had no version.
    func former(_ name: String) -> String { publicPrefix + name }
    /// STRING with a time-out: name of the leader of protocol 1. The leader of this protocol holds it too, under a name
    /// that begins with `protocol-`.
    var formerLeader: String { former("leader") }

    // MARK: Host limits

    /// HASH, `host:port` to its state; see `hostPrelude.lua`.
    var rate: String { prefix + "rate" }
    /// ZSET of permits to their expiry, ms: the requests in flight to a host.
    func fetching(_ host: String) -> String { prefix + "fetching:\(host)" }

    // MARK: Statistics

    /// HASH of counters since the queue was created; also the bytes of the dead letters and of the outcomes of all
    /// batches, of the outbox and of webhooks (`dead_bytes`, `outcome_bytes`; `reply_bytes` for the outbox alone), the
    /// limits that the leader has set (`dead_limit`, `outcome_limit`), the number of the last webhook (`webhooks`), and
    /// times of `sweep`, ms: of the last one, and the last time in which there was none (`swept`, `away_from`,
    /// `away_until`).
    package var stat: String { prefix + "stat" }
    /// HASH, host to its number of requests.
    var statHosts: String { prefix + "stat:hosts" }
    /// HyperLogLog of the originals fetched.
    var statDistinct: String { prefix + "stat:distinct" }
    /// LIST of a few jobs that have ended lately, the newest first: see ``RecentThumbnail``.
    var thumbnails: String { prefix + "thumbnails" }
}
