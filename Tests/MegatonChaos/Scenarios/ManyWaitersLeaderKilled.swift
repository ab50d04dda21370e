import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// No. 23: the waiters of a leader that dies are delayed by the rest of its lease, and no more.
struct ManyWaitersLeaderKilled: Scenario {
    static let name = "leader-killed"
    static let summary = "500 jobs in 50 processes for one image, and kill -9 of the one that fetches it: two GETs"

    /// Leases in seconds. The jobs' lease is the shorter one, so that the dead worker's jobs return in time and all
    /// jobs have the same limit.
    private static let lease = 8
    private static let flightLease = 10
    /// The lease, the origin's 2 s, and the delay of a poll for the expired lock.
    private static let limit: Duration = .milliseconds(flightLease * 1000 + 2500)

    /// No worker of the fleet leads a flight, or several do.
    struct NoLeader: Error {
        let owners: [String]
    }

    func run(_ stage: Stage) async throws -> ScenarioResult {
        let cold = try await ColdKey()
        defer { cold.stop() }
        var options = SmallCluster.Options()
        options.workerArguments =
            cold.arguments + ["--lease", String(Self.lease), "--flight-lease", String(Self.flightLease)]
        return try await SmallCluster.run(stage, options) { cluster, result in
            try await cold.push(cluster, stage)
            _ = try await cold.firstRequest(stage)
            try await stage.clock.sleep(for: .seconds(1))
            let leader = try await leader(cluster)
            let victims = try await cluster.view.held(by: leader.process.pid)
            leader.process.send(SIGKILL)
            try await measure(victims, of: cold.jobs, cluster, stage, &result)
            result.note("\(cold.requests) GETs")
            result.require(cold.requests == 2, "the origin saw \(cold.requests) GETs, not 2")
        }
    }

    private func measure(
        _ victims: [String],
        of jobs: Int,
        _ cluster: SmallCluster,
        _ stage: Stage,
        _ result: inout ScenarioResult
    ) async throws {
        let killed = stage.clock.now
        var others: Duration?
        let took = try await stage.wait(atMost: .seconds(60)) {
            let done = try await cluster.view.batch(ColdKey.batch)["done"]
            let late = try await cluster.view.alive(of: victims)
            if others == nil, done + late >= jobs { others = killed.duration(to: stage.clock.now) }
            return done == jobs
        }
        let all = killed.duration(to: stage.clock.now)
        result.require(!victims.isEmpty, "the dead leader had no job")
        guard took != nil, let others else {
            let done = try await cluster.view.batch(ColdKey.batch)["done"]
            result.add(violations: ["only \(done) of \(jobs) jobs were done within a minute after the kill"])
            return
        }
        result.note("after the kill: jobs of the living done in \(Stage.seconds(others))")
        result.note("after the kill: the dead worker's \(victims.count) jobs too in \(Stage.seconds(all))")
        result.require(others <= Self.limit, "the jobs of the living took \(Stage.seconds(others))")
        result.require(all <= Self.limit, "the dead worker's jobs took \(Stage.seconds(all))")
    }

    // MARK: - The leader

    /// The worker that leads the flight.
    private func leader(_ cluster: SmallCluster) async throws -> Fleet.Member {
        let owners = try await owners(cluster.cache)
        // `host:pid:random`
        let pids = Set(owners.compactMap { $0.split(separator: ":").dropLast().last.flatMap { Int32($0) } })
        let members = cluster.fleet.workers.filter { pids.contains($0.process.pid) }
        guard members.count == 1, pids.count == 1 else { throw NoLeader(owners: owners) }
        return members[0]
    }

    private func owners(_ cache: RedisClient) async throws -> [String] {
        var owners: [String] = []
        var cursor = "0"
        // The cache holds a handful of keys, so a few iterations return all of them.
        for _ in 0..<1000 {
            let reply = try await cache.send(["SCAN", .string(cursor), "MATCH", "megaton:f:{*", "COUNT", "1000"])
            guard let parts = reply.array, parts.count == 2, let next = parts[0].string else { break }
            for key in (parts[1].array ?? []).compactMap(\.string) {
                if let owner = try await cache.send(["HGET", .string(key), "o"]).string { owners.append(owner) }
            }
            cursor = next
            if cursor == "0" { break }
        }
        return owners
    }
}
