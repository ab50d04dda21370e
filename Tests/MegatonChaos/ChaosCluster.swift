import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// The subject of a run of faults: two Redis servers behind fault proxies, hosts of all kinds, coordinators and workers
/// with different numbers of places.
final class ChaosCluster {
    let control: RestartableRedis
    let cache: RestartableRedis
    let controlProxy: FaultProxy
    let cacheProxy: FaultProxy
    /// The host that the faults concern.
    let origin: ChaosOrigin
    /// The others.
    let hosts: ChaosHosts
    let plan: ChaosPlan
    let faults = FaultClock()
    let fleet: Fleet
    /// A direct connection to the control Redis, so that faults do not affect the harness.
    let client: RedisClient
    /// Number of shards.
    private(set) var shards: Int

    static let coordinators = 2
    /// Lease in seconds, the workers' default.
    static let lease = 15

    /// Time in which all processes have noticed another number of shards (half a minute), drained and started again.
    private static let resharding: Duration = .seconds(90)

    init(_ stage: Stage, _ plan: ChaosPlan) async throws {
        self.plan = plan
        shards = plan.shards
        control = try RestartableRedis(settings: [
            "appendonly yes", "appendfsync always", "maxmemory-policy noeviction",
        ])
        cache = try RestartableRedis(settings: ["appendonly no", "maxmemory 64mb", "maxmemory-policy allkeys-lru"])
        controlProxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: control.port))
        cacheProxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: cache.port))
        origin = try await ChaosOrigin()
        hosts = try await ChaosHosts()
        fleet = try Fleet(
            .init(
                control: controlProxy.url,
                cache: cacheProxy.url,
                program: stage.program,
                directory: stage.directory,
                workerArguments: [
                    "--lease", String(Self.lease), "--drain-timeout", "5",
                    // More than a slow origin takes. Jobs of dead hosts end within a minute.
                    "--stall-timeout", "6", "--host-patience", "20",
                ]
            )
        )
        // Longer than DEBUG SLEEP, and than a busy machine needs: an error of this client ends the run.
        client = try stage.client(control.url, timeout: .seconds(15))
        for url in [control.url, cache.url] { try await stage.answers(url) }
        if plan.shards > 1 { try await divide(plan.shards) }
        try fleet.startCoordinators(Self.coordinators)
        try fleet.startWorkers(plan.workers.map(\.arguments))
        try await stage.ready(client, workers: plan.workers.count)
    }

    /// The state of each shard, by a direct connection. All shards are on one Redis.
    var views: [QueueView] { (0..<shards).map { QueueView(redis: client, shard: $0) } }

    private func divide(_ count: Int) async throws {
        let command = try fleet.launch(command: ["queue", "reshard", String(count)])
        guard await Fleet.ending(of: command, within: .seconds(60)) == 0 else {
            throw Stage.NotReached(what: "\(count) shards: \(command.errors.suffix(300))")
        }
    }

    /// Changes the number of shards while jobs run, and starts the processes again, as their service manager would.
    func reshard(to count: Int, _ stage: Stage) async throws {
        try await divide(count)
        var started = 0
        try await stage.reach("processes that were started again for \(count) shards", within: Self.resharding) {
            started += try fleet.supervise()
            return started >= plan.workers.count + Self.coordinators
        }
        shards = count
        try await stage.ready(client, workers: plan.workers.count)
    }

    /// Undoes all faults that may still be active.
    func heal() {
        for proxy in [controlProxy, cacheProxy] {
            proxy.blackHole(false)
            proxy.setLatency(.zero)
            proxy.setBandwidth(bytesPerSecond: nil)
            proxy.endGhosts()
        }
        origin.set(.good)
    }

    /// Number of keys that the cache Redis has evicted since it was started, as its memory is limited; nil if it does
    /// not answer.
    func evictions(_ stage: Stage) async -> Int? {
        guard let cache = try? stage.client(cache.url) else { return nil }
        defer { cache.close() }
        let info = try? await cache.send(["INFO", "stats"]).string
        return info.flatMap { InfoReply.text("evicted_keys", in: $0) }.flatMap { Int($0) }
    }

    /// Ends all processes and servers.
    ///
    /// - Returns: a line for each process that was stuck or ended with a wrong code.
    func stop() async -> [String] {
        let complaints = await fleet.stop(within: .seconds(40))
        client.close()
        controlProxy.stop()
        cacheProxy.stop()
        origin.server.stop()
        hosts.stop()
        await control.remove()
        await cache.remove()
        return complaints
    }
}
