import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport

/// A control Redis, a cache Redis and a fleet, ended together however a scenario ends.
///
/// Not safe for concurrent use.
final class SmallCluster {
    /// Settings that differ between scenarios.
    struct Options {
        /// URL of an external control Redis; nil starts one.
        var controlURL: String?
        /// URLs of the Redis of further shards.
        var furtherURLs: [String] = []
        /// Lines of redis.conf for the control Redis that is started.
        var control = ["appendonly yes", "appendfsync everysec"]
        /// Environment variables added for the control Redis that is started.
        var controlEnvironment: [String: String] = [:]
        /// Lines of redis.conf for the cache Redis. It evicts nothing by default.
        var cache: [String] = []
        /// Further arguments of each worker.
        var workerArguments: [String] = []
    }

    let fleet: Fleet
    /// Client of the control Redis.
    let client: RedisClient
    let cache: RedisClient
    /// URL of the cache Redis.
    let cacheURL: String
    private let servers: [RedisServerProcess]
    private var isFleetEnded = false

    /// Time limit for the end of a fleet: its drain time and a margin.
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
                control: ([control] + options.furtherURLs).joined(separator: " "),
                cache: cacheServer.url,
                program: stage.program,
                directory: stage.directory,
                workerArguments: options.workerArguments
            )
        )
        // Processes of the fleet exit if they cannot reach Redis at their start.
        let client = client
        try await stage.reach("an answer of \(control)", within: .seconds(30)) {
            try await client.send(["PING"]).string == "PONG"
        }
    }

    /// The state of the queue in the control Redis.
    var view: QueueView { QueueView(redis: client) }

    /// Starts coordinators and workers, and waits until all have registered.
    func start(workers: Int, coordinators: Int = 1, _ stage: Stage) async throws {
        try fleet.startCoordinators(coordinators)
        try fleet.startWorkers(workers)
        try await stage.ready(client, workers: workers)
    }

    /// Runs the body with the two Redis servers and a fleet without processes, and ends all of it.
    ///
    /// An error thrown by the body becomes a violation, so that measurements made before it are reported.
    static func run(
        _ stage: Stage,
        _ options: Options = Options(),
        _ body: (SmallCluster, inout ScenarioResult) async throws -> Void
    ) async throws -> ScenarioResult {
        let cluster = try await SmallCluster(stage, options)
        var result = ScenarioResult()
        do {
            try await body(cluster, &result)
        } catch {
            result.add(violations: ["it broke off: \(error)"])
        }
        result.add(violations: await cluster.endFleet())
        cluster.client.close()
        cluster.cache.close()
        for server in cluster.servers { await server.stop() }
        return result
    }

    /// Ends the fleet early, for data that is complete only afterwards: the workers' last counters, the histories.
    ///
    /// - Returns: a line for each problem; empty after the first call.
    func endFleet() async -> [String] {
        if isFleetEnded { return [] }
        isFleetEnded = true
        return await fleet.stop(within: Self.patience)
    }
}
