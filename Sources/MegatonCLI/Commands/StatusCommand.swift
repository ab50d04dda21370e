import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// `megaton status`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the queue and its workers.",
        discussion: """
            Examples:
              megaton status --redis redis://127.0.0.1:6479
              megaton status --json

            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var redis: RedisOptions

    @Flag(name: .long, help: "Print one JSON object.")
    var json = false

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.run(redis) { inspector in
                let status = try await inspector.status(skipsDamage: true)
                let caches = await inspector.cacheServers()
                let report = ClusterReport(status: status, caches: caches)
                try Terminal.output(json ? try JSONText.pretty(report) : Self.table(status, caches))
                if let damaged = status.damagedKeys, !damaged.isEmpty {
                    Terminal.error("megaton: the numbers are not complete: \(DamagedKeys.sentences(damaged))")
                }
                if !status.isKnown {
                    Terminal.error(
                        "megaton: no process has used the queue \"\(redis.queue)\" on this Redis; --queue names "
                            + "another one."
                    )
                }
            }
        }
    }

    static func table(_ status: ClusterStatus, _ caches: [Inspector.CacheServer] = []) -> String {
        let rows: [(String, Int)] = [
            ("intake", status.intake), ("staged", status.staged), ("ready", status.ready),
            ("running", status.running), ("delayed", status.delayed), ("held", status.held), ("dead", status.dead),
            ("done", status.done), ("failed", status.failed), ("cancelled", status.cancelled),
            ("retried", status.retried),
            ("stalled", status.stalled), ("batches", status.batches),
        ]
        var lines = rows.map { "\($0.0.padding(toLength: 12, withPad: " ", startingAt: 0))\($0.1)" }
        if !status.pauses.isEmpty {
            lines.append("pauses      \(status.pauses.joined(separator: ", ")); megaton queue resume ends them")
        }
        if let warning = status.intakeWarning { lines.append("intakes     \(warning)") }
        if status.heldHosts > 0 {
            lines.append("hosts       \(Counted.of(status.heldHosts, "host")) at a limit or not answering")
        }
        let leaderless = (status.shards ?? []).filter { $0.isReachable && $0.leader == nil }.map { "\($0.number)" }
        let scope = leaderless.isEmpty ? "" : " in shard \(leaderless.joined(separator: ", "))"
        lines.append("leader      \(status.leader ?? "none\(scope)")")
        for shard in status.shards ?? [] {
            let name = "shard \(shard.number)".padding(toLength: 12, withPad: " ", startingAt: 0)
            let state =
                shard.isReachable
                ? "\(shard.intake) in the intake, \(shard.ready) ready, \(shard.running) running, \(shard.waiting) "
                    + "waiting"
                    + (shard.leader == nil ? ", no leader" : "")
                : "unreachable; the numbers above are those of the others"
            lines.append("\(name)\(shard.address)  \(state)")
        }
        for coordinator in status.coordinators {
            let version = ClusterStatus.version(coordinator.version, coordinator.protocolVersion)
            lines.append("coordinator \(coordinator.name)  \(version)")
        }
        for cache in caches where caches.count > 1 || !cache.isReachable || cache.refusal != nil {
            let state = cache.isReachable ? cache.refusal.map { ", cannot be used: \($0)" } ?? "" : ", unreachable"
            lines.append("cache       \(cache.address)\(state)")
        }
        lines.append("workers     \(status.workers.count)")
        for worker in status.workers {
            let version = worker.version.map { ", " + ClusterStatus.version($0, worker.protocolVersion) } ?? ""
            lines.append(
                "  \(worker.name)  \(worker.running) running, last heartbeat \(Int(worker.silent)) s ago\(version)"
            )
            if let problem = worker.problem { lines.append("    claims few jobs or none: \(problem)") }
        }
        lines += status.versionWarnings.map { "versions    \($0)" }
        return lines.joined(separator: "\n")
    }
}
