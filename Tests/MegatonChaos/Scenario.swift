/// One fault whose test takes too long to run on every change.
protocol Scenario: Sendable {
    /// Name on the command line.
    static var name: String { get }
    /// One line for the list of scenarios.
    static var summary: String { get }

    init()

    /// Starts its processes, measures, and ends them.
    func run(_ stage: Stage) async throws -> ScenarioResult
}
