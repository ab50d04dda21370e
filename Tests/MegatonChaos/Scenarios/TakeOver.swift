import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 20: the leading coordinator is killed while it admits jobs; a stand-by admits each of the others once.
struct TakeOver: Scenario {
    static let name = "take-over"
    static let summary = "kill -9 of the leading coordinator: a stand-by admits within 11 s, and nothing twice"

    private static let batch = "takeover"
    private static let jobs = 20_000
    private static let limit: Duration = .seconds(11)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SmallCluster.run(stage) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: 2, coordinators: 2, stage)
            let submitter = BatchSubmitter(queue: cluster.view.queue, batch: Self.batch)
            for number in 0..<Self.jobs {
                let job = Job(
                    id: "t\(number)",
                    source: origin.url("/\(number % 10).png").absoluteString,
                    renditions: Job.defaultRenditions,
                    batch: Self.batch
                )
                try await submitter.add(job.json())
            }
            try await submitter.close()
            let took = try await kill(cluster, stage)
            result.note("admitting again \(took.map(Stage.seconds) ?? "never") after the kill")
            result.require(took.map { $0 <= Self.limit } ?? false, "it took longer than 11 s")
            let ended = try await stage.wait(atMost: .seconds(120)) {
                try await cluster.view.batch(Self.batch).isFinished
            }
            result.require(ended != nil, "the batch did not end")
            let counters = try await cluster.view.batch(Self.batch)
            result.note("\(counters["done"]) done, \(counters["deduplicated"]) admitted twice")
            result.requireDone(Self.jobs, of: Self.batch, counters)
            result.require(counters["deduplicated"] == 0, "\(counters["deduplicated"]) jobs were admitted twice")
        }
    }

    /// Kills the leader, once it has admitted some jobs.
    ///
    /// - Returns: time until more jobs were admitted.
    private func kill(_ cluster: SmallCluster, _ stage: Stage) async throws -> Duration? {
        try await stage.reach("a leader that admits", within: .seconds(30)) {
            try await cluster.view.batch(Self.batch)["total"] > 1000
        }
        let leader = try await cluster.client.send(["GET", "megaton:{default}:2:leader"]).string ?? ""
        for (index, process) in cluster.fleet.coordinators.enumerated() where leader.contains(":\(process.pid):") {
            process.send(SIGKILL)
            _ = await process.ending()
            let total = try await cluster.view.batch(Self.batch)["total"]
            let took = try await stage.wait(atMost: .seconds(60)) {
                try await cluster.view.batch(Self.batch)["total"] > total
            }
            try cluster.fleet.restartCoordinator(index)
            return took
        }
        return nil
    }
}
