import MegatonRedis

/// No. 28: those who wait for somebody else's fetch lose their subscriptions twice, and hear of its end in time.
struct CutSubscriptions: Scenario {
    static let name = "cut-subscriptions"
    static let summary = "100 jobs wait for one picture in 10 processes whose subscriptions are cut: one GET, no delay"

    /// After the first request: in the middle of the origin's 2 s, and just before their end.
    private static let cuts: [Duration] = [.seconds(1), .milliseconds(1900)]
    /// The origin's own 2 s included.
    private static let limit: Duration = .milliseconds(2200)
    /// Short beside what is measured.
    private static let interval: Duration = .milliseconds(10)

    func run(_ stage: Stage) async throws -> Verdict {
        let cold = try await ColdKey(workers: 10, jobs: 100)
        defer { cold.stop() }
        var options = SmallCluster.Options()
        options.workerArguments = cold.arguments
        return try await SmallCluster.run(stage, options) { cluster, verdict in
            try await cold.push(cluster, stage)
            let first = try await cold.firstRequest(stage)
            for cut in Self.cuts {
                try await stage.clock.sleep(until: first + cut)
                let count = try await cluster.cache.send(["CLIENT", "KILL", "TYPE", "pubsub"]).int ?? 0
                let running = try await cluster.client.send(["ZCARD", .string(stage.lease)]).int ?? 0
                verdict.note("\(count) subscriptions cut after \(Stage.seconds(cut)), with \(running) jobs in hand")
                verdict.require(count == cold.workers, "\(count) of \(cold.workers) subscriptions were cut")
                verdict.require(running == cold.jobs, "only \(running) of \(cold.jobs) jobs were in hand")
            }
            try await cold.judge(
                from: first,
                within: Self.limit,
                every: Self.interval,
                cluster,
                stage,
                &verdict
            )
        }
    }
}
