import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport

/// Nos. 3 and 4: one SIGTERM drains within its time, a second one returns jobs at once. Neither counts as an attempt.
struct Signals: Scenario {
    static let name = "signals"
    static let summary = "SIGTERM under load ends within the drain time and 2 s, a second one within 1 s"

    /// Drain time in seconds.
    private static let drain = 3
    private static let jobs = 8
    private static let afterSecond: Duration = .seconds(1)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        var options = SmallCluster.Options()
        options.workerArguments = ["--drain-timeout", String(Self.drain), "--concurrency", String(Self.jobs)]
        return try await SmallCluster.run(stage, options) { cluster, result in
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            // All jobs of the worker wait for the origin.
            try await cluster.client.noteAnswer(of: origin)
            origin.hold()
            try await cluster.start(workers: 1, stage)
            try await push(origin, cluster)
            let once = try await end(cluster, stage, signals: 1, &result)
            result.note("one SIGTERM: ended after \(Stage.seconds(once)) with a drain time of \(Self.drain) s")
            result.require(once <= .seconds(Self.drain + 2), "it took longer than its drain time and 2 s")
            try cluster.fleet.restart(cluster.fleet.workers[0])
            let twice = try await end(cluster, stage, signals: 2, &result)
            result.note("two SIGTERM: ended, and all jobs ready again, after \(Stage.seconds(twice))")
            result.require(twice <= Self.afterSecond, "it took longer than a second")
            try cluster.fleet.restart(cluster.fleet.workers[0])
            origin.release()
            let done = try await stage.wait(atMost: .seconds(30)) { try await cluster.view.done() == Self.jobs }
            result.require(done != nil, "not all jobs were done in the end")
        }
    }

    private func push(_ origin: OriginServer, _ cluster: SmallCluster) async throws {
        let commands = (0..<Self.jobs).map { number in
            let job = Job(id: "s\(number)", source: origin.url("/\(number).png").absoluteString)
            return RedisCommand([
                "LPUSH", "megaton:{default}:jobs", .string(String(decoding: job.json(), as: UTF8.self)),
            ])
        }
        for case .error(let text) in try await cluster.client.pipeline(commands) { throw RedisError(reply: text) }
    }

    /// Ends the worker while it runs all jobs, and checks that no job is leased and no attempt was used up.
    ///
    /// - Returns: time until the worker had ended.
    private func end(
        _ cluster: SmallCluster,
        _ stage: Stage,
        signals: Int,
        _ result: inout ScenarioResult
    ) async throws -> Duration {
        let process = cluster.fleet.workers[0].process
        let running = try await stage.wait(atMost: .seconds(30)) {
            try await cluster.client.send(["ZCARD", .string(stage.lease)]).int == Self.jobs
        }
        result.require(running != nil, "the worker did not take all jobs")
        let start = stage.clock.now
        for signal in 0..<signals {
            // A signal that arrives while the first is pending merges with it.
            if signal > 0 { try await stage.clock.sleep(for: .milliseconds(100)) }
            process.send(SIGTERM)
        }
        let code = await Fleet.ending(of: process, within: .seconds(30))
        let took = start.duration(to: stage.clock.now)
        result.require(code == 0, "it ended with \(code.map(String.init) ?? "nothing")")
        let leased = try await cluster.client.send(["ZCARD", .string(stage.lease)]).int
        result.require(leased == 0, "\(leased ?? -1) jobs are still leased")
        let metas = try await cluster.client.send(["HVALS", .string(stage.meta)]).array ?? []
        let spent = metas.compactMap(\.string).filter { meta in
            // `attempt+free|…`: the number of free attempts must equal the number made.
            let parts = meta.prefix { $0 != "|" }.split(separator: "+")
            return parts.count != 2 || parts[0] != parts[1]
        }
        result.require(spent.isEmpty && metas.count == Self.jobs, "attempts were spent: \(spent)")
        return took
    }
}
