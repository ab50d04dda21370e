/// No. 7: a restart of the control Redis, shorter than a lease.
struct ShortOutage: Scenario {
    static let name = "outage-10"
    static let summary = "the control Redis is away for 10 s under load: the same processes go on 5 s after it is back"

    private static let outage: Duration = .seconds(10)

    func run(_ stage: Stage) async throws -> ScenarioResult { try await Outage(length: Self.outage).run(stage) }
}
