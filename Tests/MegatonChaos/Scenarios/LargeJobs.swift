import Foundation
import MegatonCluster
import MegatonTestSupport

/// Many large jobs at once, for a worker with a slot for each of them.
struct LargeJobs: Scenario {
    static let name = "large-jobs"
    static let summary = "120 jobs of 738 KB for a worker of 128 places: done, and none stalled"

    private static let (jobs, bytes) = (120, 738_000)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let options = SmallCluster.Options(workerArguments: ["--concurrency", "128"])
        return try await SmallCluster.run(stage, options) { cluster, result in
            // A valid image, made large by bytes after its end. Each job has a different source.
            let image = TestImage.quarters(width: 64, height: 64)
            let lines = (0..<Self.jobs).map { number in
                let filler = Data(repeating: UInt8(number), count: Self.bytes * 3 / 4 - image.count)
                return "data:image/png;base64," + (image + filler).base64EncodedString()
            }
            let list = stage.directory + "/large.txt"
            try JobList.write(lines, to: list)
            try await cluster.start(workers: 1, stage)
            let start = stage.clock.now
            let submit = try cluster.fleet.launch(command: ["submit", list, "--wait", "--json", "--batch", "large"])
            defer { submit.send(SIGKILL) }
            let code = await Fleet.ending(of: submit, within: .seconds(120))
            let took = start.duration(to: stage.clock.now)
            let (counters, stat) = (try await cluster.view.batch("large"), try await cluster.view.stat())
            result.note("\(counters["done"]) done in \(Stage.seconds(took)); \(stat["stalled"] ?? 0) stalled")
            result.require(code == 0, "the submitter ended with \(code.map(String.init) ?? "nothing")")
            result.requireDone(Self.jobs, of: "large", counters)
            result.require(stat["stalled"] ?? 0 == 0, "\(stat["stalled"] ?? 0) stalled")
        }
    }
}
