package import ArgumentParser
import Foundation
package import MegatonCluster
package import MegatonRedis

/// Addresses of the Redis servers. Passwords belong in the environment, which `ps` does not show.
package struct RedisOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Control Redis: redis://, rediss://, unix:///path or redis-sentinel://host:port,host:port/name.",
            valueName: "url"
        )
    )
    package var redis: String?

    @Option(
        name: .customLong("cache-redis"),
        help: ArgumentHelp("Cache Redis; by default the control Redis.", valueName: "url")
    )
    package var cacheRedis: String?

    @Option(name: .long, help: ArgumentHelp("Name of the queue.", valueName: "name"))
    package var queue = "default"

    package init() {}

    package static let environmentHelp =
        "MEGATON_REDIS and MEGATON_CACHE_REDIS can have the URLs instead, which may contain passwords."

    /// The URL from the command line or the environment.
    package var controlURL: String? { redis ?? Self.variable("MEGATON_REDIS") }
    /// The URL from the command line or the environment.
    package var cacheURL: String? { cacheRedis ?? Self.variable("MEGATON_CACHE_REDIS") }

    /// An empty variable counts as unset: environment files disable a variable that way.
    private static func variable(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    package var keys: QueueKeys { QueueKeys(queue: queue) }

    package mutating func validate() throws {
        if !Job.isName(queue) {
            throw ValidationError("--queue must match [A-Za-z0-9._:-]{1,128}, not \"\(queue)\".")
        }
        for url in [redis, cacheRedis] {
            guard let url else { continue }
            do {
                _ = try RedisConfiguration(url: url)
            } catch {
                throw ValidationError(error.message)
            }
        }
    }

    /// - Throws: `CLIError` if no URL is given.
    package func control() throws -> RedisConfiguration {
        guard let url = controlURL else {
            throw CLIError.usage("no Redis is named: give --redis URL, or set MEGATON_REDIS.")
        }
        return try RedisConfiguration(url: url)
    }

    /// The address of the cache Redis; that of the control Redis if there is none.
    package func cache() throws -> RedisConfiguration {
        try cacheURL.map { url in try RedisConfiguration(url: url) } ?? control()
    }
}
