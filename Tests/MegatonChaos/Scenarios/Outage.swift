import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// Takes the control Redis down under load, and checks that all processes resume by themselves once it is back.
struct Outage {
    let length: Duration

    private static let batch = "outage"
    private static let sources = 60
    private static let widths = 100
    /// Jobs done before Redis goes down.
    private static let doneBefore = 300
    /// From Redis' first answer to the first job that ends.
    private static let limit: Duration = .seconds(5)
    /// Time for the rest of the batch, including jobs whose leases expired meanwhile.
    private static let patience: Duration = .seconds(180)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let control = try RestartableRedis(settings: [
            "appendonly yes", "appendfsync always", "maxmemory-policy noeviction",
        ])
        var options = SmallCluster.Options()
        options.controlURL = control.url
        do {
            let result = try await SmallCluster.run(stage, options) { cluster, result in
                try await measure(control, cluster, stage, &result)
            }
            await control.remove()
            return result
        } catch {
            await control.remove()
            throw error
        }
    }

    private func measure(
        _ control: RestartableRedis,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
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
        try await takeAway(control, cluster, jobs, stage, &result)
        let alive = processes(cluster).filter(\.isRunning)
        result.note("\(alive.count) of \(pids.count) workers and coordinators lived through it")
        result.require(alive.map(\.pid) == pids, "a worker or a coordinator ended in the outage")
        let code = await Fleet.ending(of: submit, within: Self.patience)
        result.require(code == 0, "the submitter ended with \(code.map(String.init) ?? "nothing: it hung")")
        let counters = try await cluster.view.batch(Self.batch)
        result.requireDone(jobs, of: Self.batch, counters)
        result.add(violations: try await cluster.view.misplaced())
        result.add(violations: await cluster.endFleet())
        result.note("\(counters["done"]) done; \(try await cluster.view.leases().text)")
    }

    private func processes(_ cluster: SmallCluster) -> [ProgramUnderTest] {
        cluster.fleet.workers.map(\.process) + cluster.fleet.coordinators
    }

    private func takeAway(
        _ control: RestartableRedis,
        _ cluster: SmallCluster,
        _ jobs: Int,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let view = cluster.view
        // Closed: pushes are not the subject, and one is only retried for a minute.
        try await stage.reach("a fleet at work", within: .seconds(60)) {
            let counters = try await view.batch(Self.batch)
            return counters["closed"] == 1 && counters.ended >= Self.doneBefore
        }
        await control.kill()
        try await stage.clock.sleep(for: length)
        try control.start()
        try await stage.reach("a Redis that is back", within: .seconds(60)) {
            try await cluster.client.send(["PING"]).string == "PONG"
        }
        let back = stage.clock.now
        let before = try await view.done()
        result.require(before < jobs, "all jobs were done before the outage: there was no load")
        let took = try await stage.wait(atMost: .seconds(120)) { try await view.done() > before }
        let first = back.duration(to: stage.clock.now)
        result.note("away for \(Stage.seconds(length)) with \(jobs - before) jobs left")
        result.note("first job that ended after it was back: \(took == nil ? "none" : Stage.seconds(first))")
        result.require(took != nil && first <= Self.limit, "no job ended within 5 s after Redis was back")
    }
}
