import Foundation
import MegatonCluster
import MegatonTestSupport
import NIOCore

/// Workers are killed one after the other as long as a batch runs. Each job counts once, and an original is fetched
/// again only if its fetch died with a worker.
struct KillsUnderLoad: Scenario {
    static let name = "kills"
    static let summary = "10,000 jobs over 100 URLs with kill -9 of a worker every 5 s: GETs and counts are exact"

    private static let batch = "kills"
    private static let sources = 100
    private static let widths = 100
    private static let workers = 4
    private static let interval: Duration = .seconds(5)
    private static let patience: Duration = .seconds(300)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        // The cache evicts nothing, so eviction cannot be the reason for fetching an original again.
        try await SmallCluster.run(stage) { cluster, result in
            // Large enough that the renders last for several kills.
            let image = TestImage.quarters(width: 256, height: 256)
            let origin = try await OriginServer.start(delay: .milliseconds(50)) { _ in .image(image) }
            defer { origin.stop() }
            let (list, ledger) = ("\(stage.directory)/list.jsonl", "\(stage.directory)/ledger.jsonl")
            let urls = (0..<Self.sources).map { origin.url("/\($0).png").absoluteString }
            let jobs = try JobList.write(urls, widths: 20..<20 + Self.widths, to: list)
            try await cluster.start(workers: Self.workers, stage)
            let submit = try cluster.fleet.launch(command: [
                "submit", list, "--wait", "--json", "--batch", Self.batch, "--ledger", ledger,
            ])
            defer { submit.send(SIGKILL) }
            let start = stage.clock.now
            let kills = try await kill(cluster, while: submit, stage)
            let took = start.duration(to: stage.clock.now)
            result.note("\(jobs) jobs in \(Stage.seconds(took)), \(kills) workers killed")
            result.require(kills >= 2, "only \(kills) workers were killed: that proves nothing")
            let code = await Fleet.ending(of: submit, within: .seconds(1))
            result.require(code == 0, "the submitter ended with \(code.map(String.init) ?? "nothing")")
            try await count(jobs, ledger, cluster, &result)
            result.add(violations: await cluster.endFleet())
            try requests(origin, cluster, &result)
        }
    }

    /// Kills one worker after the other, and restarts each at once, until the batch has ended.
    ///
    /// - Returns: number of kills.
    private func kill(_ cluster: SmallCluster, while submit: ProgramUnderTest, _ stage: Stage) async throws -> Int {
        var kills = 0
        let deadline = stage.clock.now + Self.patience
        while submit.isRunning && stage.clock.now < deadline {
            let ended = try await stage.wait(atMost: Self.interval) { !submit.isRunning }
            if ended != nil { break }
            let victim = cluster.fleet.workers[kills % Self.workers]
            victim.process.send(SIGKILL)
            _ = await victim.process.ending()
            try cluster.fleet.restart(victim)
            kills += 1
        }
        return kills
    }

    private func count(
        _ jobs: Int,
        _ ledger: String,
        _ cluster: SmallCluster,
        _ result: inout ScenarioResult
    ) async throws {
        let counters = try await cluster.view.batch(Self.batch)
        result.requireDone(jobs, of: Self.batch, counters)
        let outcomes = JobList.outcomes(ledger)
        let names = Set(outcomes.compactMap(\.id))
        result.require(outcomes.count == jobs, "the ledger has \(outcomes.count) lines for \(jobs) jobs")
        result.require(names.count == jobs, "the ledger has \(names.count) jobs, not \(jobs)")
        result.add(violations: try await cluster.view.misplaced())
        let stalled = try await cluster.view.leases().stalled
        result.note("\(counters["done"]) done, each once; \(stalled) leases ran out with their workers")
    }

    /// Compares the number of requests at the origin with the number that the histories explain.
    private func requests(_ origin: OriginServer, _ cluster: SmallCluster, _ result: inout ScenarioResult) throws {
        let history = try HistoryChecker(cluster.fleet.histories)
        // A flight that was refused at its end has expired too, while its leader was alive.
        let expired = history.expired + history.unlocked + history.failed
        result.note(
            "\(origin.total) GETs for \(Self.sources) URLs; \(expired) expired: \(history.expired) never ended, "
                + "\(history.unlocked) had no lock, \(history.failed) left no entry"
        )
        result.require(
            origin.total <= Self.sources + expired,
            "\(origin.total) GETs are more than \(Self.sources) URLs and \(expired) expired flights"
        )
        result.require(history.landed + expired >= Self.sources, "only \(history.landed) originals have a landing")
        result.add(violations: history.violations)
    }
}
