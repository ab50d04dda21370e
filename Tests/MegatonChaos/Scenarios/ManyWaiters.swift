import MegatonCluster

/// No. 22: one fetch for all who wait, however many processes they are in.
struct ManyWaiters: Scenario {
    static let name = "many-waiters"
    static let summary = "500 jobs in 50 processes for one picture that nobody has: one GET, and all done soon after it"

    /// The origin's own 2 s included.
    private static let limit: Duration = .milliseconds(2500)

    func run(_ stage: Stage) async throws -> Verdict {
        var options = SmallCluster.Options()
        options.workerArguments = ColdKey.arguments
        return try await SmallCluster.run(stage, options) { cluster, verdict in
            let cold = try await ColdKey()
            defer { cold.stop() }
            try await cold.push(cluster, stage)
            let first = try await cold.firstRequest(stage)
            let took = try await stage.wait(atMost: .seconds(60)) {
                try await cluster.view.batch(ColdKey.batch)["done"] == ColdKey.jobs
            }
            let all = first.duration(to: stage.clock.now)
            // A second request would come from somebody who has waited in vain.
            try await stage.clock.sleep(for: .seconds(3))
            verdict.note("\(ColdKey.workers) processes, \(ColdKey.jobs) jobs: \(cold.requests) GET")
            verdict.require(cold.requests == 1, "the origin saw \(cold.requests) GETs, not 1")
            guard took != nil else {
                let done = try await cluster.view.batch(ColdKey.batch)["done"]
                verdict.complain(["only \(done) of \(ColdKey.jobs) jobs were done within a minute"])
                return
            }
            verdict.note("all done \(Stage.seconds(all)) after the first request reached the origin")
            verdict.require(all <= Self.limit, "all done only \(Stage.seconds(all)) after the first request")
        }
    }
}
