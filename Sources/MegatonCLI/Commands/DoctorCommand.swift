import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check the cluster for problems. Exits with 1 for an error, with --strict also for a warning.",
        discussion: RedisOptions.environmentHelp
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
                let findings = await findings(queue, caches)
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

    /// The findings of all shards; each server is checked once.
    private func findings(_ queue: ShardedQueue, _ caches: [RedisClient]) async -> [Doctor.Finding] {
        let first = Doctor(control: queue.first.redis, caches: caches, keys: queue.first.keys)
        var findings = await first.examine(repair: repair)
        var checked = [queue.first.redis.configuration] + caches.map(\.configuration)
        for shard in queue.shards.dropFirst() {
            let server = shard.redis.configuration
            let doctor = Doctor(control: shard.redis, caches: [], keys: shard.keys)
            findings += await doctor.examineShard(repair: repair, checksServer: !checked.contains(server))
            checked.append(server)
        }
        return findings
    }
}
