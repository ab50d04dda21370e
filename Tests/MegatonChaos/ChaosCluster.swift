import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import NIOCore

/// The subject of a run of faults: two Redis servers behind fault proxies, an origin, coordinators and workers.
final class ChaosCluster {
    let control: RestartableRedis
    let cache: RestartableRedis
    let controlProxy: FaultProxy
    let cacheProxy: FaultProxy
    let origin: ChaosOrigin
    let fleet: Fleet
    /// A direct connection to the control Redis, so that faults do not affect the harness.
    let client: RedisClient

    static let workers = 4
    static let coordinators = 2
    /// Lease in seconds, the workers' default.
    static let lease = 15

    init(_ stage: Stage) async throws {
        control = try RestartableRedis(settings: [
            "appendonly yes", "appendfsync always", "maxmemory-policy noeviction",
        ])
        cache = try RestartableRedis(settings: ["appendonly no", "maxmemory 64mb", "maxmemory-policy allkeys-lru"])
        controlProxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: control.port))
        cacheProxy = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: cache.port))
        origin = try await ChaosOrigin()
        fleet = try Fleet(
            .init(
                control: controlProxy.url,
                cache: cacheProxy.url,
                program: stage.program,
                directory: stage.directory,
                workerArguments: ["--concurrency", "8", "--lease", String(Self.lease), "--drain-timeout", "5"]
            )
        )
        client = try stage.client(control.url, timeout: .seconds(2))
        for url in [control.url, cache.url] { try await stage.answers(url) }
        try fleet.startCoordinators(Self.coordinators)
        try fleet.startWorkers(Self.workers)
        try await stage.ready(client, workers: Self.workers)
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

    /// Ends all processes and servers.
    ///
    /// - Returns: a line for each process that was stuck or ended with a wrong code.
    func stop() async -> [String] {
        let complaints = await fleet.stop(within: .seconds(40))
        client.close()
        controlProxy.stop()
        cacheProxy.stop()
        origin.server.stop()
        await control.remove()
        await cache.remove()
        return complaints
    }
}
