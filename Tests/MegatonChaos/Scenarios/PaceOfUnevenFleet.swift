import Foundation
import MegatonCluster
import MegatonTestSupport

/// Small workers beside a large one add to the throughput.
struct PaceOfUnevenFleet: Scenario {
    static let name = "pace-uneven"
    static let summary = "twelve workers of one place beside one of 32: at least 1.15 times its pace alone"

    private static let places = 32
    private static let small = 12
    private static let least = 1.15

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SmallCluster.run(stage) { cluster, result in
            let fleet = PretendedFleet(cluster: cluster, stage: stage, milliseconds: 1000)
            let large = try fleet.start(places: Self.places)
            defer { large.send(SIGKILL) }
            try cluster.fleet.startCoordinators(1)
            try await stage.ready(cluster.client, workers: 1)
            try await fleet.push(4000)
            try await stage.reach("the large worker full", within: .seconds(30)) {
                try await cluster.view.leased() >= Self.places - 2
            }
            let alone = try await fleet.pace(over: .seconds(10))
            let others = try fleet.start(workers: Self.small, places: 1)
            defer { others.send(SIGKILL) }
            try await stage.ready(cluster.client, workers: 1 + Self.small)
            let together = try await fleet.pace(over: .seconds(15))
            let figures = [alone, together, together / alone].map { String(format: "%.2f", $0) }
            result.note("alone \(figures[0])/s, with the small ones \(figures[1])/s: \(figures[2]) times")
            result.require(together >= Self.least * alone, "\(figures[2]) times the pace alone, not \(Self.least)")
        }
    }
}
