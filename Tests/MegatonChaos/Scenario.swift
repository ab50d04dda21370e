/// One fault of the test plan that takes too long for every change.
protocol Scenario: Sendable {
    /// As on the command line.
    static var name: String { get }
    /// In one line, for the list.
    static var summary: String { get }

    init()

    /// Starts what it needs, measures, and ends it.
    func run(_ stage: Stage) async throws -> Verdict
}
