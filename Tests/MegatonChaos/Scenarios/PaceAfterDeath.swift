import Foundation
import MegatonCluster
import MegatonTestSupport

/// Killing a worker costs its own throughput and no more. Measured as a ratio within one run: before, during and
/// after.
struct PaceAfterDeath: Scenario {
    static let name = "pace-after-death"
    static let summary = "two workers of 64 places, jobs of 3 s, one worker killed, twice: the survivor keeps its pace"

    private static let places = 64
    private static let least = 0.85

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SmallCluster.run(stage) { cluster, result in
            let fleet = PretendedFleet(cluster: cluster, stage: stage, milliseconds: 3000)
            let survivor = try fleet.start(places: Self.places)
            var other = try fleet.start(places: Self.places)
            defer {
                survivor.send(SIGKILL)
                other.send(SIGKILL)
            }
            try cluster.fleet.startCoordinators(1)
            try await stage.ready(cluster.client, workers: 2)
            try await fleet.push(12_000)
            for kill in 1...2 {
                try await stage.reach("both workers full", within: .seconds(60)) {
                    try await cluster.view.leased() >= 2 * Self.places - 4
                }
                let own = try await fleet.pace(over: .seconds(12)) / 2
                other.send(SIGKILL)
                let during = try await fleet.pace(over: .seconds(30))
                let after = try await fleet.pace(over: .seconds(12))
                let figures = [own, during, after].map { String(format: "%.1f", $0) }
                result.note(
                    "kill \(kill): own pace \(figures[0])/s, the next 30 s \(figures[1])/s, then \(figures[2])/s"
                )
                result.require(after >= Self.least * own, "kill \(kill): \(figures[2])/s of \(figures[0])/s")
                result.require(during >= Self.least * own, "kill \(kill): \(figures[1])/s of \(figures[0])/s for 30 s")
                other = try fleet.start(places: Self.places)
            }
            result.require(try await cluster.view.dead() == 0, "jobs are dead")
        }
    }
}
