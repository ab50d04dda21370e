import MegatonRedis

/// No. 28: waiters for another process's fetch lose their subscriptions again and again, and learn of its end in time.
struct CutSubscriptions: Scenario {
    static let name = "cut-subscriptions"
    static let summary = "100 jobs wait for one image in 10 processes whose subscriptions are cut: one GET, no delay"

    /// Times after the first request: in the middle of the origin's 2 s, and just before their end.
    private static let cuts: [Duration] = [.seconds(1), .milliseconds(1900)]
    /// When the response arrives: jobs may have ended, and not all may have subscribed again.
    private static let lastCut: Duration = .seconds(2)
    /// Includes the origin's own 2 s.
    private static let limit: Duration = .milliseconds(2200)
    /// Polling interval, short compared with the limit.
    private static let interval: Duration = .milliseconds(10)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let cold = try await ColdKey(workers: 10, jobs: 100)
        defer { cold.stop() }
        var options = SmallCluster.Options()
        options.workerArguments = cold.arguments
        return try await SmallCluster.run(stage, options) { cluster, result in
            try await cold.push(cluster, stage)
            let first = try await cold.firstRequest(stage)
            for cut in Self.cuts {
                let (count, running) = try await cutAll(at: first + cut, cluster, stage)
                result.note("\(count) subscriptions cut after \(Stage.seconds(cut)), with \(running) jobs in hand")
                // The process that fetches does not wait.
                let waiting = cold.workers - 1
                result.require(count == waiting, "\(count) of \(waiting) subscriptions were cut")
                result.require(running == cold.jobs, "only \(running) of \(cold.jobs) jobs were in hand")
            }
            let (count, running) = try await cutAll(at: first + Self.lastCut, cluster, stage)
            result.note("\(count) cut after \(Stage.seconds(Self.lastCut)), with \(running) jobs in hand")
            try await cold.judge(
                from: first,
                within: Self.limit,
                every: Self.interval,
                cluster,
                stage,
                &result
            )
        }
    }

    /// - Returns: number of subscriptions cut, and number of running jobs.
    private func cutAll(
        at instant: ContinuousClock.Instant,
        _ cluster: SmallCluster,
        _ stage: Stage
    ) async throws -> (count: Int, running: Int) {
        try await stage.clock.sleep(until: instant)
        let count = try await cluster.cache.send(["CLIENT", "KILL", "TYPE", "pubsub"]).int ?? 0
        return (count, try await cluster.client.send(["ZCARD", .string(stage.lease)]).int ?? 0)
    }
}
