/// No. 22: one fetch for all waiters, across many processes.
struct ManyWaiters: Scenario {
    static let name = "many-waiters"
    static let summary = "500 jobs in 50 processes for one image that no cache has: one GET, and all done soon after it"

    /// Includes the origin's own 2 s.
    private static let limit: Duration = .milliseconds(2300)
    private static let interval: Duration = .milliseconds(50)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let cold = try await ColdKey()
        defer { cold.stop() }
        var options = SmallCluster.Options()
        options.workerArguments = cold.arguments
        return try await SmallCluster.run(stage, options) { cluster, result in
            try await cold.push(cluster, stage)
            let first = try await cold.firstRequest(stage)
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
}
