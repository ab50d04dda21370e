import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// A control Redis, a cache Redis and a fleet, ended together however a scenario ends.
///
/// Not for two tasks at once.
final class SmallCluster {
    /// What differs between scenarios.
    struct Options {
        /// A control Redis that is somebody else's; nil starts one.
        var controlURL: String?
        /// Lines of redis.conf of our own control Redis.
        var control = ["appendonly yes", "appendfsync everysec"]
        /// Added to our own, for our own control Redis.
        var controlEnvironment: [String: String] = [:]
        /// Lines of redis.conf of the cache Redis. It evicts nothing unless it is told to.
        var cache: [String] = []
        /// Further arguments of each worker.
        var workerArguments: [String] = []
    }

    let fleet: Fleet
    /// Of the control Redis.
    let client: RedisClient
    let cache: RedisClient
    /// URL of the cache Redis.
    let cacheURL: String
    private let servers: [RedisServerProcess]
    private var isFleetEnded = false

    /// What a fleet may take to end: its drain time and a margin.
    private static let patience: Duration = .seconds(45)

    private init(_ stage: Stage, _ options: Options) async throws {
        let cacheServer = try await RedisServerProcess.start(.init(settings: options.cache))
        let control: String
        if let url = options.controlURL {
            control = url
            servers = [cacheServer]
        } else {
            let controlServer = try await RedisServerProcess.start(
                .init(settings: options.control, environment: options.controlEnvironment)
            )
            control = controlServer.url
            servers = [cacheServer, controlServer]
        }
        cacheURL = cacheServer.url
        client = try stage.client(control)
        cache = try stage.client(cacheServer.url)
        fleet = try Fleet(
            .init(
                control: control,
                cache: cacheServer.url,
                program: stage.program,
                directory: stage.directory,
                workerArguments: options.workerArguments
            )
        )
        // The fleet's processes end at once where they cannot reach it at their start.
        let client = client
        try await stage.reach("an answer of \(control)", within: .seconds(30)) {
            try await client.send(["PING"]).string == "PONG"
        }
    }

    /// What the control Redis says about the queue.
    var view: QueueView { QueueView(redis: client) }

    /// Starts coordinators and workers and waits until all have signed on.
    func start(workers: Int, coordinators: Int = 1, _ stage: Stage) async throws {
        try fleet.startCoordinators(coordinators)
        try fleet.startWorkers(workers)
        try await stage.ready(client, workers: workers)
    }

    /// Runs the body with the two Redis and a fleet that has no processes yet, and ends all of it.
    ///
    /// What the body throws becomes a violation: what was measured until then is worth having.
    static func run(
        _ stage: Stage,
        _ options: Options = Options(),
        _ body: (SmallCluster, inout Verdict) async throws -> Void
    ) async throws -> Verdict {
        let cluster = try await SmallCluster(stage, options)
        var verdict = Verdict()
        do {
            try await body(cluster, &verdict)
        } catch {
            verdict.complain(["it broke off: \(error)"])
        }
        verdict.complain(await cluster.endFleet())
        cluster.client.close()
        cluster.cache.close()
        for server in cluster.servers { await server.stop() }
        return verdict
    }

    /// Ends the fleet before the end, for what can only be read afterwards: the workers' last counters, the histories.
    ///
    /// - Returns: what went wrong, the first time.
    func endFleet() async -> [String] {
        if isFleetEnded { return [] }
        isFleetEnded = true
        return await fleet.stop(within: Self.patience)
    }
}
