import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check the cluster for problems. Exits with 1 for an error, with --strict also for a warning.",
        discussion: """
            Examples:
              megaton doctor --redis redis://127.0.0.1:6479
              megaton doctor --strict --json
              megaton doctor --repair

            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Repair jobs that are in two lists of the queue or in none, while the queue is in use.")
    var repair = false

    @Flag(name: .long, help: "Exit with 1 for warnings too.")
    var strict = false

    @Flag(name: .long, help: "Print a JSON list.")
    var json = false

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, toleratesAbsence: true) { queue, caches in
                let findings = await Doctor.examine(queue, caches: caches, repair: repair)
                if json {
                    try Terminal.output(JSONText.pretty(findings))
                } else {
                    for finding in findings {
                        let level = finding.level.rawValue.padding(toLength: 8, withPad: " ", startingAt: 0)
                        try Terminal.output("\(level) \(finding.subject): \(finding.message)")
                    }
                }
                let isBad = findings.contains { $0.level == .error || strict && $0.level == .warning }
                if isBad { throw ExitCode(1) }
            }
        }
    }
}
