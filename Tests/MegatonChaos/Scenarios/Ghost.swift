import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 11: a half-open connection leaves a client at Redis that receives the wake token of a job in vain.
struct Ghost: Scenario {
    static let name = "ghost"
    static let summary = "a half-open connection takes a wake token: the job is done within 5 s"

    private static let rounds = 5
    private static let limit: Duration = .seconds(5)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let server = try RestartableRedis(settings: ["appendonly yes"])
        let proxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: server.port))
        try await stage.answers(server.url)
        var options = SmallCluster.Options()
        options.controlURL = proxy.url
        let result = try await SmallCluster.run(stage, options) { cluster, result in
            let client = try stage.client(server.url)
            defer { client.close() }
            let image = TestImage.quarters(width: 32, height: 32)
            let origin = try await OriginServer.start { _ in .image(image) }
            defer { origin.stop() }
            try await cluster.start(workers: 1, stage)
            var longest: Duration = .zero
            for round in 1...Self.rounds {
                // By then the worker is idle and blocked on its token.
                try await stage.clock.sleep(for: .seconds(1))
                proxy.halfOpen()
                let job = Job(id: "g\(round)", source: origin.url("/\(round).png").absoluteString)
                try await client.send([
                    "LPUSH", "megaton:{default}:jobs", .string(String(decoding: job.json(), as: UTF8.self)),
                ])
                let took = try await stage.wait(atMost: .seconds(30)) {
                    try await QueueView(redis: client).done() == round
                }
                result.require(took != nil, "job \(round) was not done")
                longest = max(longest, took ?? .seconds(30))
                proxy.endGhosts()
            }
            result.note(
                "\(Self.rounds) jobs, each pushed as the connections became ghosts: \(Stage.seconds(longest)) at the longest"
            )
            result.require(longest <= Self.limit, "it took longer than 5 s")
        }
        proxy.stop()
        await server.remove()
        return result
    }
}
