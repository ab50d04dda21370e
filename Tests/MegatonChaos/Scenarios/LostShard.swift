import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// Takes the Redis of one of two shards down under load. The other shard goes on meanwhile, all processes live, and
/// each job counts once when it is back.
struct LostShard: Scenario {
    static let name = "lost-shard"
    static let summary = "one of two control Redis is away for 10 s: the other shard goes on, each job counts once"

    private static let outage: Duration = .seconds(10)
    private static let batch = "shards"
    private static let sources = 60
    private static let widths = 100
    /// Jobs done in each shard before its Redis goes down.
    private static let doneBefore = 150
    private static let limit: Duration = .seconds(5)
    private static let patience: Duration = .seconds(180)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let settings = ["appendonly yes", "appendfsync always", "maxmemory-policy noeviction"]
        let servers = [try RestartableRedis(settings: settings), try RestartableRedis(settings: settings)]
        var options = SmallCluster.Options()
        options.controlURL = servers[0].url
        options.furtherURLs = [servers[1].url]
        var outcome: Result<ScenarioResult, any Error>
        do {
            outcome = .success(
                try await SmallCluster.run(stage, options) { cluster, result in
                    let second = try stage.client(servers[1].url)
                    defer { second.close() }
                    let views = [cluster.view, QueueView(redis: second, shard: 1)]
                    try await measure(servers[1], cluster, views, stage, &result)
                }
            )
        } catch {
            outcome = .failure(error)
        }
        for server in servers { await server.remove() }
        return try outcome.get()
    }

    private func measure(
        _ lost: RestartableRedis,
        _ cluster: SmallCluster,
        _ views: [QueueView],
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        try await stage.reach("an answer of the second Redis", within: .seconds(30)) {
            try await views[1].redis.send(["PING"]).string == "PONG"
        }
        let reshard = try cluster.fleet.launch(command: ["queue", "reshard", "2"])
        result.require(await Fleet.ending(of: reshard, within: .seconds(30)) == 0, "the queue was not divided")
        let image = TestImage.quarters(width: 128, height: 128)
        let origin = try await OriginServer.start(delay: .milliseconds(20)) { _ in .image(image) }
        defer { origin.stop() }
        try await cluster.start(workers: 4, coordinators: 2, stage)
        let list = "\(stage.directory)/list.jsonl"
        let urls = (0..<Self.sources).map { origin.url("/\($0).png").absoluteString }
        let jobs = try JobList.write(urls, widths: 20..<20 + Self.widths, to: list)
        let submit = try cluster.fleet.launch(command: ["submit", list, "--wait", "--json", "--batch", Self.batch])
        defer { submit.send(SIGKILL) }
        let pids = processes(cluster).map(\.pid)
        try await takeAway(lost, views, stage, &result)
        let alive = processes(cluster).filter(\.isRunning)
        result.require(alive.map(\.pid) == pids, "a worker or a coordinator ended while a shard was away")
        let code = await Fleet.ending(of: submit, within: Self.patience)
        result.require(code == 0, "the submitter ended with \(code.map(String.init) ?? "nothing: it hung")")
        var done: [Int] = []
        for view in views {
            let counters = try await view.batch(Self.batch)
            done.append(counters["done"])
            result.require(counters.isFinished, "a part of the batch has not ended")
            result.add(violations: try await view.misplaced())
        }
        result.require(done.reduce(0, +) == jobs, "of \(jobs) jobs \(done) were done in the shards")
        result.add(violations: await cluster.endFleet())
        result.note("\(done) jobs done in the shards; \(try await views[1].leases().text)")
    }

    private func processes(_ cluster: SmallCluster) -> [ProgramUnderTest] {
        cluster.fleet.workers.map(\.process) + cluster.fleet.coordinators
    }

    private func takeAway(
        _ lost: RestartableRedis,
        _ views: [QueueView],
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        try await stage.reach("a fleet at work in both shards", within: .seconds(60)) {
            for view in views {
                let counters = try await view.batch(Self.batch)
                guard counters["closed"] == 1, counters.ended >= Self.doneBefore else { return false }
            }
            return true
        }
        let before = try await views[0].done()
        await lost.kill()
        try await stage.clock.sleep(for: Self.outage)
        let meanwhile = try await views[0].done() - before
        try lost.start()
        try await stage.reach("a Redis that is back", within: .seconds(60)) {
            try await views[1].redis.send(["PING"]).string == "PONG"
        }
        let back = stage.clock.now
        let returned = try await views[1].done()
        let left = try await views[0].batch(Self.batch)
        result.note("\(meanwhile) jobs of the other shard done in \(Stage.seconds(Self.outage))")
        // All of them may be done before that.
        result.require(meanwhile > 0 || left.isFinished, "the other shard stood still")
        let took = try await stage.wait(atMost: .seconds(120)) { try await views[1].done() > returned }
        let first = back.duration(to: stage.clock.now)
        result.note("first job that ended after it was back: \(took == nil ? "none" : Stage.seconds(first))")
        result.require(took != nil && first <= Self.limit, "no job ended within 5 s after the shard was back")
    }
}
