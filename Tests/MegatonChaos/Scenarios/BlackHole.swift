import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 10: all packets of one worker are dropped silently. It notices and stops its jobs, and they run elsewhere.
struct BlackHole: Scenario {
    static let name = "black-hole"
    static let summary = "a black hole in front of one worker: noticed within 10 s, its jobs are free within 16 s"

    private static let jobs = 16
    /// The interval of heartbeats and their timeout, plus the polling interval.
    private static let noticed: Duration = .milliseconds(10_200)
    private static let free: Duration = .seconds(16)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        let server = try RestartableRedis(settings: ["appendonly yes"])
        options.controlURL = server.url
        let proxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: server.port))
        try await stage.answers(server.url)
        let result = try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            // All jobs of a worker wait for the origin.
            try await cluster.client.noteAnswer(of: origin)
            origin.hold()
            try await cluster.start(workers: 0, stage)
            let worker = try ProgramUnderTest(
                program: stage.program,
                arguments: [
                    "worker", "--allow-private", "--redis", proxy.url, "--cache-redis", cluster.cacheURL, "--log-level",
                    "warning",
                ]
            )
            defer { worker.send(SIGKILL) }
            try await stage.ready(cluster.client, workers: 1)
            try await fall(worker, into: proxy, origin, cluster, stage, &result)
            origin.release()
            let done = try await stage.wait(atMost: .seconds(60)) { try await cluster.view.done() == Self.jobs }
            result.require(done != nil, "not all jobs were done by the other worker")
            proxy.blackHole(false)
        }
        proxy.stop()
        await server.remove()
        return result
    }

    private func fall(
        _ worker: ProgramUnderTest,
        into proxy: FaultProxy,
        _ origin: OriginServer,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        for number in 0..<Self.jobs {
            let job = Job(id: "b\(number)", source: origin.url("/\(number).png").absoluteString)
            try await cluster.client.send([
                "LPUSH", "megaton:{default}:jobs", .string(String(decoding: job.json(), as: UTF8.self)),
            ])
        }
        let running = try await stage.wait(atMost: .seconds(30)) {
            try await cluster.view.held(by: worker.pid).count == Self.jobs
        }
        result.require(running != nil, "the worker did not take all jobs")
        let start = stage.clock.now
        proxy.blackHole(true)
        try cluster.fleet.startWorkers(1)
        let noticed = try await stage.wait(atMost: .seconds(30)) { worker.errors.contains("cannot renew leases") }
        let free = try await stage.wait(atMost: .seconds(30)) { try await cluster.view.held(by: worker.pid).isEmpty }
        let total = start.duration(to: stage.clock.now)
        result.note(
            "noticed after \(noticed.map(Stage.seconds) ?? "never"), its jobs free after \(Stage.seconds(total))"
        )
        result.require(noticed.map { $0 <= Self.noticed } ?? false, "it did not notice within 10 s")
        result.require(free != nil && total <= Self.free, "its jobs were not free within 16 s")
    }
}
