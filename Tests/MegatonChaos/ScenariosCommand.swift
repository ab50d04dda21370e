import ArgumentParser
import MegatonTestSupport

/// `scripts/chaos scenarios [NAME …]`
struct ScenariosCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scenarios",
        abstract: "The long scenarios of faults, all of them or those that are named."
    )

    @Argument(help: "Names; --list shows them.")
    var names: [String] = []

    @Flag(name: .long, help: "Show what there is.")
    var list = false

    @Option(name: .long, help: "The program megaton.")
    var program: String

    mutating func validate() throws {
        let known = Set(Scenarios.all.map { $0.name })
        for name in names where !known.contains(name) { throw ValidationError("No scenario \"\(name)\"; see --list.") }
    }

    func run() async throws {
        if list {
            for scenario in Scenarios.all { print("\(scenario.name): \(scenario.summary)") }
            return
        }
        var bad = 0
        for scenario in Scenarios.all where names.isEmpty || names.contains(scenario.name) {
            print("\(scenario.name): \(scenario.summary)")
            let directory = try TestDirectory()
            defer { directory.remove() }
            let result: ScenarioResult
            do {
                result = try await scenario.init().run(Stage(program: program, directory: directory.path))
            } catch {
                print("  VIOLATION it broke off: \(error)")
                bad += 1
                continue
            }
            for figure in result.figures { print("  \(figure)") }
            for violation in result.violations { print("  VIOLATION \(violation)") }
            if !result.hasPassed { bad += 1 }
        }
        print(bad == 0 ? "all good" : "\(bad) failed")
        if bad > 0 { throw ExitCode(1) }
    }
}
