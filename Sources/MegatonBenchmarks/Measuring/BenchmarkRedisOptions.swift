import ArgumentParser
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// Redis servers that a benchmark uses instead of a private one.
struct BenchmarkRedisOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Control Redis to use instead of a private one, with no other work on it. Repeatable for a queue whose "
                + "shards are on several; a redis+cluster:// URL names a Redis Cluster.",
            valueName: "url"
        )
    )
    var redis: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Queue on --redis, \"bench\" by default: one that nothing else uses, which megaton queue reshard may have "
                + "divided.",
            valueName: "name"
        )
    )
    var queue: String?

    private static let defaultQueue = "bench"

    mutating func validate() throws {
        if redis.isEmpty {
            if queue != nil {
                throw ValidationError(
                    "--queue is the name of a queue on --redis URL, and no URL is given; a private Redis has one queue."
                )
            }
            return
        }
        do {
            _ = try options(redis)
        } catch {
            throw ValidationError(RedisOptions.message(for: error))
        }
    }

    /// The same options as those of other commands, without the URLs of the environment: these may be of a cluster that
    /// works, and a benchmark must not push jobs there by accident.
    private func options(_ urls: [String]) throws -> RedisOptions {
        try RedisOptions.parse(urls.flatMap { ["--redis", $0] } + ["--queue", queue ?? Self.defaultQueue])
    }

    /// Runs the body with the queue, on a private Redis if none is named.
    func run<Value: Sendable>(_ body: @escaping @Sendable (BenchmarkQueue) async throws -> Value) async throws -> Value
    {
        if !redis.isEmpty {
            return try await body(BenchmarkQueue(address: try options(redis).address(), urls: redis, isPrivate: false))
        }
        let name = queue ?? Self.defaultQueue
        return try await EmbeddedRedis(size: 4 << 30, isTemporary: true).run { server in
            let address = QueueAddress([server], queue: name)
            return try await body(BenchmarkQueue(address: address, urls: [server.description], isPrivate: true))
        }
    }
}
