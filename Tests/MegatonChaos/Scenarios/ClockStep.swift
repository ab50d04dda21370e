import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 25, first half: the clock of one worker's machine jumps, without effect on its jobs.
struct ClockStep: Scenario {
    static let name = "clock"
    static let summary = "one worker's clock jumps an hour ahead and then an hour back: its jobs are done, none stalls"

    private static let batch = "clock"
    private static let sources = 60
    private static let widths = 100
    private static let patience: Duration = .seconds(120)
    /// Offset from the machine's clock in milliseconds, and the number of jobs done before the step.
    private static let steps: [(offset: Int64, after: Int)] = [(3_600_000, 500), (-3_600_000, 2500)]
    /// Milliseconds between the largest and the smallest time in the worker's history: nearly two hours.
    private static let expectedSpan = 6_900_000

    func run(_ stage: Stage) async throws -> ScenarioResult {
        return try await SmallCluster.run(stage) { cluster, result in
            let image = TestImage.quarters(width: 128, height: 128)
            let origin = try await OriginServer.start(delay: .milliseconds(20)) { _ in .image(image) }
            defer { origin.stop() }
            let clock = "\(stage.directory)/clock"
            try FaultLibrary.setClock(clock, aheadBy: 0)
            try await cluster.start(workers: 1, stage)
            let stepped = try launch(clock, cluster, stage)
            defer { stepped.send(SIGKILL) }
            try await stage.ready(cluster.client, workers: 2)
            try await load(origin, clock, stepped, cluster, stage, &result)
            stepped.send(SIGTERM)
            let code = await Fleet.ending(of: stepped, within: .seconds(45))
            result.require(
                code == 0,
                "the worker ended with \(code.map(String.init) ?? "nothing"). \(stepped.errors.suffix(300))"
            )
            result.add(violations: await cluster.endFleet())
            try await judge(cluster, &result)
        }
    }

    // MARK: - The clock

    private static func history(_ cluster: SmallCluster) -> String { cluster.fleet.histories + "/stepped.jsonl" }

    /// A worker whose wall clock follows the file. Its monotonic clocks do not, as when a machine's clock is set.
    private func launch(_ clock: String, _ cluster: SmallCluster, _ stage: Stage) throws -> ProgramUnderTest {
        try ProgramUnderTest(
            program: stage.program,
            arguments: [
                "worker", "--allow-private", "--render-threads", "1", "--history", Self.history(cluster), "--log-level",
                "warning", "--redis", cluster.fleet.options.control, "--cache-redis", cluster.cacheURL,
            ],
            environment: try FaultLibrary.steppingClock(clock)
        )
    }

    // MARK: - The load

    private func load(
        _ origin: OriginServer,
        _ clock: String,
        _ stepped: ProgramUnderTest,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let (list, ledger) = ("\(stage.directory)/list.jsonl", "\(stage.directory)/ledger.jsonl")
        let urls = (0..<Self.sources).map { origin.url("/\($0).png").absoluteString }
        let jobs = try JobList.write(urls, widths: 20..<20 + Self.widths, to: list)
        let submit = try cluster.fleet.launch(command: [
            "submit", list, "--wait", "--json", "--batch", Self.batch, "--ledger", ledger,
        ])
        defer { submit.send(SIGKILL) }
        for step in Self.steps {
            try await stage.reach("\(step.after) jobs done", within: Self.patience) {
                try await cluster.view.done() >= step.after
            }
            try FaultLibrary.setClock(clock, aheadBy: step.offset)
        }
        let code = await Fleet.ending(of: submit, within: Self.patience)
        result.require(code == 0, "the submitter ended with \(code.map(String.init) ?? "nothing")")
        let counters = try await cluster.view.batch(Self.batch)
        result.requireDone(jobs, of: Self.batch, counters)
        let own = JobList.outcomes(ledger).count { $0.worker?.contains(":\(stepped.pid):") == true }
        result.note("\(counters["done"]) of \(jobs) jobs done, \(own) of them by the worker whose clock jumped")
        result.require(own > Self.steps[0].after / 4, "the worker whose clock jumped did next to nothing")
    }

    private func judge(_ cluster: SmallCluster, _ result: inout ScenarioResult) async throws {
        let lines = (FileManager.default.contents(atPath: Self.history(cluster)) ?? Data()).split(separator: 10)
        let times = lines.compactMap { try? JSONDecoder().decode(HistoryEvent.self, from: Data($0)).at }
        let span = (times.max() ?? 0) - (times.min() ?? 0)
        result.note("the worker's own clock went over \(span / 60_000) minutes")
        result.require(span >= Self.expectedSpan, "the worker's clock did not jump: that proves nothing")
        let leases = try await cluster.view.leases()
        result.note(leases.text)
        result.require(leases.areZero, "leases were lost with the clock")
    }
}
