/// No. 8: an outage longer than every timeout.
struct LongOutage: Scenario {
    static let name = "long-outage"
    static let summary =
        "the control Redis is away for 5 minutes under load: the same processes go on 5 s after it is back"

    private static let outage: Duration = .seconds(300)

    func run(_ stage: Stage) async throws -> ScenarioResult { try await Outage(length: Self.outage).run(stage) }
}
