import Foundation
import MegatonRedis
import MegatonTestSupport

/// No. 14, the half without a split network: a master without its replica refuses writes, so that a failover elsewhere
/// loses only writes acknowledged before. The other half is ``SplitMaster``.
struct NoReplicas: Scenario {
    static let name = "no-replicas"
    static let summary =
        "min-replicas-to-write 1 and a replica that falls silent: writes are refused, by name, and come back"

    /// With 7 s of `min-replicas-max-lag`, 9.25 s at most, as in ``SplitMaster``.
    private static let refusalLimit: Duration = .seconds(10)
    private static let returnLimit: Duration = .seconds(5)

    func run(_ stage: Stage) async throws -> ScenarioResult {
        try await SentinelTrio.run(.init(minReplicasToWrite: 1, minReplicasMaxLag: 7)) {
            (trio) async throws -> ScenarioResult in
            var result = ScenarioResult()
            let (master, replica) = (trio.client(port: trio.masterPort), trio.client(port: trio.replicaPort))
            defer {
                master.close()
                replica.close()
            }
            // The replica is a child process of this one; the trio does not expose its id.
            let pid = Int32(try await Stage.info("process_id", in: "server", replica))
            result.require(try await !isRefused(master), "a write was refused while the replica was there")
            kill(pid, SIGSTOP)
            // Sent a second time without harm; the trio can then end even if the test fails.
            defer { kill(pid, SIGCONT) }
            let refused = try await stage.wait(atMost: .seconds(30)) { try await isRefused(master) }
            result.note("NOREPLICAS after \(refused.map(Stage.seconds) ?? "more than 30 s")")
            result.require(refused.map { $0 <= Self.refusalLimit } ?? false, "writes were not refused in time")
            kill(pid, SIGCONT)
            let back = try await stage.wait(atMost: .seconds(30)) { try await !isRefused(master) }
            result.note("writes taken again \(back.map(Stage.seconds) ?? "more than 30 s") after the replica's return")
            result.require(back.map { $0 <= Self.returnLimit } ?? false, "writes were not taken again in time")
            return result
        }
    }

    /// - Throws: any error other than the refusal.
    private func isRefused(_ redis: RedisClient) async throws -> Bool {
        do throws(RedisError) {
            try await redis.send(["SET", "megaton:probe", "1"])
            return false
        } catch {
            guard error.code == .notWritable, error.message.contains("NOREPLICAS") else { throw error }
            return true
        }
    }
}
