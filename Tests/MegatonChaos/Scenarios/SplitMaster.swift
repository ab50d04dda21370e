import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 14, the half with a split network: the old master is cut off from its replicas and from the sentinels, but not
/// from its clients. It serves them until it refuses their writes.
struct SplitMaster: Scenario {
    static let name = "split"
    static let summary =
        "a master cut off from its replicas, not from its clients: it refuses writes, and all go over to the new one"

    private static let key = "megaton:probe"
    /// The batch that runs when the network is split.
    private static let before = "before"
    private static let jobsBefore = 600
    private static let doneBefore = 50
    /// The batch that is pushed once the client has switched to the new master.
    private static let after = "after"
    private static let jobsAfter = 50

    /// With 7 s of `min-replicas-max-lag`, 9.25 s at most: a lag is counted in whole seconds, so that up to 8 s pass
    /// before it exceeds 7; the server counts once a second or a tenth later (serverCron), by a clock that may be a
    /// tenth old; and the client writes every 50 ms.
    private static let refusalLimit: Duration = .seconds(10)
    /// After the refusal or after +switch-master, whichever is later.
    private static let returnLimit: Duration = .seconds(10)
    private static let batchLimit: Duration = .seconds(60)
    /// Sentinels let a master that returns stay a master for 8 s before they make it a replica.
    private static let demotionLimit: Duration = .seconds(60)

    /// Servers and clients of the scenario.
    private struct Cast {
        let trio: SentinelTrio
        let cluster: SmallCluster
        let origin: OriginServer
        /// A client that uses the sentinels' URL, as users do.
        let client: RedisClient
        /// Writes with that client.
        let writer: ProbeWriter
        /// Writes to the old master, even after refusals.
        let insistent: ProbeWriter
        /// A direct connection to the old master, for checks.
        let old: RedisClient
        /// A direct connection to the new one.
        let new: RedisClient

        /// The queue at the new master.
        var view: QueueView { QueueView(redis: new) }
    }

    /// The state of the new master when it took over.
    private struct Kept {
        /// The last number written.
        let number: Int
        let done: Int
    }

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let trioOptions = SentinelTrio.Options(
            minReplicasToWrite: 1,
            minReplicasMaxLag: 7,
            isSplittable: true
        )
        return try await SentinelTrio.run(trioOptions) { (trio) async throws -> ScenarioResult in
            var options = SmallCluster.Options()
            options.controlURL = trio.url
            return try await SmallCluster.run(stage, options) { cluster, result in
                try await play(trio, cluster, stage, &result)
            }
        }
    }

    private func play(
        _ trio: SentinelTrio,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let image = TestImage.quarters(width: 32, height: 32)
        let origin = try await OriginServer.start(delay: .seconds(1)) { _ in .image(image) }
        defer { origin.stop() }
        let (client, insistent) = (try stage.client(trio.url), trio.client(port: trio.masterPort))
        let (old, new) = (trio.client(port: trio.masterPort), trio.client(port: trio.replicaPort))
        defer { for redis in [client, insistent, old, new] { redis.close() } }
        let cast = Cast(
            trio: trio,
            cluster: cluster,
            origin: origin,
            client: client,
            writer: ProbeWriter(client, key: Self.key),
            insistent: ProbeWriter(insistent, key: Self.key + ":insistent"),
            old: old,
            new: new
        )
        try await cluster.start(workers: 2, stage)
        try await load(cast, stage, &result)
        try await live(cast, stage, &result)
        let isSame = cluster.fleet.workers.allSatisfy { $0.process.isRunning }
        result.require(isSame && cluster.fleet.coordinators.allSatisfy { $0.isRunning }, "not all processes lived")
        result.add(violations: await cluster.endFleet())
        result.note(try await cast.view.leases().text)
    }

    /// Runs the split from before its start until after its end, with both writers.
    private func live(_ cast: Cast, _ stage: Stage, _ result: inout ScenarioResult) async throws {
        let (trio, writer, insistent) = (cast.trio, cast.writer, cast.insistent)
        // Unstructured, so that each can be ended at its own time.
        let writing = Task { await writer.run(stage) }
        let insisting = Task { await insistent.run(stage) }
        defer {
            writing.cancel()
            insisting.cancel()
        }
        try await stage.reach("writes before the split", within: .seconds(30)) {
            writer.taken.count >= 10 && insistent.taken.count >= 10
        }
        var split = stage.clock.now
        try await trio.switched {
            split = stage.clock.now
            trio.split(true)
        }
        let switched = stage.clock.now
        result.note("+switch-master \(Stage.seconds(split.duration(to: switched))) after the split")
        let kept = Kept(
            number: try await cast.new.send(["GET", .string(Self.key)]).int ?? 0,
            done: try await cast.view.done()
        )
        result.add(violations: try await cast.view.misplaced().map { "soon after the switch: \($0)" })
        let refused = try await refusal(cast, after: split, stage, &result)
        try await goOver(cast, kept, after: max(refused, switched), stage, &result)
        try await work(cast, stage, &result)
        insisting.cancel()
        await insisting.value
        try await losses(cast, kept, after: split, &result)
        try await heal(cast, writing, stage, &result)
    }

    // MARK: - Jobs

    /// Gives the fleet jobs, and waits until the replicas have all of them, so that none can be lost.
    private func load(_ cast: Cast, _ stage: Stage, _ result: inout ScenarioResult) async throws {
        try await submit(Self.jobsBefore, to: Self.before, cast)
        let replicas = try await cast.client.send(["WAIT", "2", "5000"], timeout: .seconds(8)).int
        result.require(replicas == 2, "the replicas did not have the first batch in 5 s")
        try await stage.reach("a fleet at work", within: .seconds(60)) {
            try await cast.cluster.view.done() >= Self.doneBefore
        }
    }

    private func submit(_ count: Int, to batch: String, _ cast: Cast) async throws {
        let submitter = BatchSubmitter(queue: QueueView(redis: cast.client).queue, batch: batch)
        for number in 0..<count {
            let job = Job(
                id: "\(batch)\(number)",
                source: cast.origin.url("/\(batch)\(number).png").absoluteString,
                renditions: Job.defaultRenditions,
                batch: batch
            )
            try await submitter.add(job.json())
        }
        try await submitter.close()
    }

    /// Checks that jobs pushed now are done, and those from before too, each in exactly one place.
    private func work(_ cast: Cast, _ stage: Stage, _ result: inout ScenarioResult) async throws {
        let start = stage.clock.now
        try await submit(Self.jobsAfter, to: Self.after, cast)
        for (batch, jobs) in [(Self.after, Self.jobsAfter), (Self.before, Self.jobsBefore)] {
            let ended = try await stage.wait(atMost: Self.batchLimit) { try await cast.view.batch(batch).isFinished }
            let took = start.duration(to: stage.clock.now)
            let counters = try await cast.view.batch(batch)
            result.note(
                "batch \"\(batch)\" \(ended == nil ? "not over" : "over") \(Stage.seconds(took)) after the push to the "
                    + "new master: \(counters["done"]) of \(jobs) done"
            )
            result.require(ended != nil, "the batch \"\(batch)\" did not end")
            result.requireDone(jobs, of: batch, counters)
        }
        result.add(violations: try await cast.view.misplaced().map { "when all was done: \($0)" })
    }

    // MARK: - Writes

    /// - Returns: the time at which the old master first refused the client.
    private func refusal(
        _ cast: Cast,
        after split: ContinuousClock.Instant,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws -> ContinuousClock.Instant {
        try await stage.reach("a refusal of both writers", within: .seconds(30)) {
            firstRefusal(cast.writer, cast) != nil && firstRefusal(cast.insistent, cast) != nil
        }
        guard let refused = firstRefusal(cast.writer, cast) else { throw Stage.NotReached(what: "a refusal") }
        let took = split.duration(to: refused)
        result.note("NOREPLICAS \(Stage.seconds(took)) after the split")
        result.require(took <= Self.refusalLimit, "the old master did not refuse writes in time")
        return refused
    }

    private func firstRefusal(_ writer: ProbeWriter, _ cast: Cast) -> ContinuousClock.Instant? {
        writer.refused.first { $0.port == cast.trio.masterPort }?.time
    }

    /// The client and the fleet find the new master by themselves.
    private func goOver(
        _ cast: Cast,
        _ kept: Kept,
        after start: ContinuousClock.Instant,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let port = cast.trio.replicaPort
        try await stage.reach("a write at the new master", within: .seconds(30)) {
            cast.writer.taken.contains { $0.port == port }
        }
        let client = cast.writer.taken.first { $0.port == port }.map { start.duration(to: $0.time) }
        result.note("the client's first write at the new master: \(client.map(Stage.seconds) ?? "none") later")
        result.require(client.map { $0 <= Self.returnLimit } ?? false, "the client did not go over in time")
        let worked = try await stage.wait(atMost: .seconds(30)) { try await cast.view.done() > kept.done }
        let fleet = start.duration(to: stage.clock.now)
        result.note("the fleet's first job that ended there: \(worked == nil ? "none" : Stage.seconds(fleet)) later")
        result.require(worked != nil && fleet <= Self.returnLimit, "the fleet did not go over in time")
    }

    /// Counts the writes that the old master acknowledged and the new one never received: documented losses.
    private func losses(
        _ cast: Cast,
        _ kept: Kept,
        after split: ContinuousClock.Instant,
        _ result: inout ScenarioResult
    ) async throws {
        let port = cast.trio.masterPort
        let taken = cast.writer.taken.filter { $0.port == port }
        let served = taken.count { $0.time > split }
        result.note(
            "the old master acknowledged \(served) of the client's writes after the split; "
                + "\(taken.count { $0.number > kept.number }) are lost; other failures: \(cast.writer.failureText)"
        )
        result.require(served > 0, "the old master served no client after the split: it had lost its clients too")
        let done = try await QueueView(redis: cast.old).done()
        result.note("ends of jobs that it acknowledged and that are lost, so that they ran again: \(done - kept.done)")
        for (name, writer) in [("the client", cast.writer), ("a client that insists", cast.insistent)] {
            let late = firstRefusal(writer, cast).map { first in
                writer.taken.count { $0.port == port && $0.time > first }
            }
            result.require(late != nil, "no write of \(name) was refused")
            result.require((late ?? 0) == 0, "\(late ?? 0) writes of \(name) were acknowledged after a refusal")
        }
    }

    /// Reconnects the network: the old master becomes a replica and synchronizes with the new one.
    private func heal(
        _ cast: Cast,
        _ writing: Task<Void, Never>,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        cast.trio.split(false)
        let demoted = try await stage.wait(atMost: .seconds(90)) {
            try await cast.old.send(["ROLE"]).array?.first?.string == "slave"
        }
        result.note("the old master a replica \(demoted.map(Stage.seconds) ?? "not within 90 s") after the healing")
        result.require(demoted.map { $0 <= Self.demotionLimit } ?? false, "it did not become a replica in time")
        writing.cancel()
        await writing.value
        let last = cast.writer.taken.last
        result.require(last?.port == cast.trio.replicaPort, "the last write was not taken by the new master")
        let value = try await cast.new.send(["GET", .string(Self.key)]).int ?? 0
        result.require(value >= last?.number ?? 0, "the new master lost a write that it had acknowledged")
        let same = try await stage.wait(atMost: .seconds(30)) {
            try await cast.old.send(["GET", .string(Self.key)]).int == value
        }
        result.note("the old master has the new one's value \(same.map(Stage.seconds) ?? "not within 30 s") later")
        result.require(same != nil, "the old master did not get the new one's value")
    }
}
