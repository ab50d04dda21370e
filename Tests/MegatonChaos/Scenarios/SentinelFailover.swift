import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// No. 13: the master of the control Redis dies under load, and its replica replaces it.
struct SentinelFailover: Scenario {
    static let name = "sentinel"
    static let summary =
        "kill -9 of the control Redis' master under load: resumed in 10 s, losses counted, nothing torn"

    private static let batch = "failover"
    private static let sources = 50
    private static let widths = 60
    /// Jobs done before the master is killed.
    private static let doneBefore = 300
    /// After +switch-master.
    private static let limit: Duration = .seconds(10)
    /// A submitter whose acknowledged pushes were lost may wait forever.
    private static let patience: Duration = .seconds(120)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SentinelTrio.run { (trio) async throws -> ScenarioResult in
            var options = SmallCluster.Options()
            options.controlURL = trio.url
            return try await SmallCluster.run(stage, options) { cluster, result in
                try await failOver(trio, cluster, stage, &result)
            }
        }
    }

    private func failOver(
        _ trio: SentinelTrio,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let image = TestImage.quarters(width: 128, height: 128)
        let origin = try await OriginServer.start(delay: .milliseconds(100)) { _ in .image(image) }
        defer { origin.stop() }
        try await cluster.start(workers: 4, coordinators: 2, stage)
        let (list, ledger) = ("\(stage.directory)/list.jsonl", "\(stage.directory)/ledger.jsonl")
        let urls = (0..<Self.sources).map { origin.url("/\($0).png").absoluteString }
        let jobs = try JobList.write(urls, widths: 20..<20 + Self.widths, to: list)
        let submit = try cluster.fleet.launch(command: [
            "submit", list, "--wait", "--json", "--batch", Self.batch, "--ledger", ledger,
        ])
        defer { submit.send(SIGKILL) }
        try await stage.reach("a fleet at work", within: .seconds(60)) {
            try await cluster.view.done() >= Self.doneBefore
        }
        let killed = stage.clock.now
        try await trio.switched { trio.killMaster() }
        let switched = stage.clock.now
        result.note("+switch-master \(Stage.seconds(killed.duration(to: switched))) after the kill")
        let master = try stage.client("redis://127.0.0.1:\(trio.replicaPort)")
        defer { master.close() }
        let view = QueueView(redis: master)
        try await resume(view, since: switched, jobs, stage, &result)
        let code = await Fleet.ending(of: submit, within: Self.patience)
        result.note("the submitter ended with \(code.map(String.init) ?? "nothing: it hung, and was killed")")
        try await count(view, jobs, stage, &result)
        let outcomes = JobList.outcomes(ledger)
        result.note("its ledger: \(outcomes.count) lines, \(Set(outcomes.compactMap(\.id)).count) jobs")
        try await lateness(cluster, view, &result)
    }

    /// Waits for the first job that ends at the new master.
    private func resume(
        _ view: QueueView,
        since switched: ContinuousClock.Instant,
        _ jobs: Int,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let before = try await view.done()
        result.note("done at the new master when it took over: \(before) of \(jobs)")
        result.require(before < jobs, "all jobs were done before the switch: there was no load")
        let took = try await stage.wait(atMost: .seconds(60)) { try await view.done() > before }
        let first = switched.duration(to: stage.clock.now)
        result.note("first job that ended after the switch: \(took == nil ? "none" : Stage.seconds(first))")
        result.require(took != nil && first <= Self.limit, "no job ended within 10 s after +switch-master")
        result.add(violations: try await view.misplaced().map { "soon after the switch: \($0)" })
    }

    /// Counts the outcomes of the jobs, once none is alive any more.
    private func count(_ view: QueueView, _ jobs: Int, _ stage: Stage, _ result: inout ScenarioResult) async throws {
        let quiet = try await stage.wait(atMost: Self.patience) { try await view.queue.alive() == 0 }
        result.require(quiet != nil, "jobs are still alive \(Stage.seconds(Self.patience)) after the submitter's end")
        result.add(violations: try await view.misplaced().map { "at the end: \($0)" })
        let counters = try await view.batch(Self.batch)
        // Jobs that were acknowledged to the submitter, and that the new master never received.
        let lost = jobs - counters["submitted"]
        result.note(
            "of \(jobs): \(counters["done"]) done, \(counters["failed"]) failed, \(counters["cancelled"]) cancelled, "
                + "\(counters["deduplicated"]) deduplicated, \(lost) lost with the old master"
        )
        result.require(
            counters["total"] == counters["submitted"],
            "\(counters["submitted"]) submitted, but \(counters["total"]) admitted"
        )
        result.require(
            counters.ended + lost == jobs,
            "\(counters.ended) ended and \(lost) lost are not the \(jobs) that were submitted"
        )
    }

    /// Notes the counters of jobs that ran again because their completion was lost, and of late completions.
    private func lateness(_ cluster: SmallCluster, _ view: QueueView, _ result: inout ScenarioResult) async throws {
        result.add(violations: await cluster.endFleet())
        result.note(try await view.leases().text)
    }
}
