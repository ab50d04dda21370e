package import ArgumentParser
import Foundation
package import MegatonCluster
package import MegatonRedis

/// Addresses of the Redis servers. Passwords belong in the environment, which `ps` does not show.
package struct RedisOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Control Redis: redis://, unix:///path, redis-sentinel://host:port,host:port/name or "
                + "redis+cluster://host:port; with TLS rediss://, rediss-sentinel:// or rediss+cluster://. "
                + "Repeatable for a queue whose shards are on several Redis; all processes name them in the same "
                + "order.",
            valueName: "url"
        )
    )
    package var redis: [String] = []

    @Option(
        name: .customLong("cache-redis"),
        help: ArgumentHelp(
            "Cache Redis; by default the control Redis, all of them. Repeatable: each holds a share of the entries, "
                + "and all processes name the same ones, in any order.",
            valueName: "url"
        )
    )
    package var cacheRedis: [String] = []

    @Option(
        name: .customLong("redis-ca"),
        help: ArgumentHelp(
            "Certificates to trust for TLS with Redis, instead of the system's.",
            valueName: "file"
        ),
        completion: .file()
    )
    package var certificateAuthority: String?

    @Option(
        name: .customLong("redis-cert"),
        help: ArgumentHelp("Client certificate for TLS, if Redis asks for one; PEM.", valueName: "file"),
        completion: .file()
    )
    package var clientCertificate: String?

    @Option(
        name: .customLong("redis-key"),
        help: ArgumentHelp("Private key of --redis-cert; PEM.", valueName: "file"),
        completion: .file()
    )
    package var clientKey: String?

    @Option(name: .long, help: ArgumentHelp("Name of the queue.", valueName: "name"))
    package var queue = "default"

    package init() {}

    package static let environmentHelp =
        "Each option can also come from a variable, such as MEGATON_REDIS, or from a file: see megaton config --help. "
        + "URLs with passwords belong there."

    /// A variable with these URLs, for processes that this one starts: spaces separate them, and are encoded in the
    /// path of a socket.
    package static func variable(of urls: [String]) -> String {
        urls.map { $0.replacingOccurrences(of: " ", with: "%20") }.joined(separator: " ")
    }

    /// Whether a Redis is named.
    package var namesRedis: Bool { !redis.isEmpty }

    /// The variables with the files of TLS, for processes that this one starts.
    package var tlsEnvironment: [String: String] {
        let files = [
            "MEGATON_REDIS_CA": certificateAuthority, "MEGATON_REDIS_CERT": clientCertificate,
            "MEGATON_REDIS_KEY": clientKey,
        ]
        return files.compactMapValues { $0 }
    }

    package var keys: QueueKeys { QueueKeys(queue: queue) }

    package mutating func validate() throws {
        if !Job.isName(queue) {
            throw ValidationError("--queue must be a name of \(Job.nameRule), not \"\(queue)\".")
        }
        var option = "--redis"
        do {
            var controls: [RedisConfiguration] = []
            for url in redis { controls.append(try configuration(url)) }
            try QueueAddress.check(controls)
            option = "--cache-redis"
            _ = try servers(cacheRedis)
        } catch {
            throw ValidationError("\(option): \(error.message)")
        }
        try checkTLSIsUsed()
    }

    /// Without TLS the files have no effect, and their user believes that the connection is encrypted. Variables and
    /// files of a machine may have them for other servers.
    private func checkTLSIsUsed() throws {
        let given = [("ca", certificateAuthority), ("cert", clientCertificate), ("key", clientKey)].first {
            $0.1 != nil && !OptionOrigins.isConfigured("--redis-\($0.0)")
        }
        let configurations = (redis + cacheRedis).compactMap { try? RedisConfiguration(url: $0) }
        guard let given, !configurations.contains(where: \.usesTLS) else { return }
        throw ValidationError(
            "--redis-\(given.0) is for TLS, and no URL of Redis begins with rediss."
        )
    }

    private func configuration(_ url: String) throws(RedisError) -> RedisConfiguration {
        var configuration = try RedisConfiguration(url: url)
        try configuration.addTLSFiles(
            authority: certificateAuthority,
            certificate: clientCertificate,
            key: clientKey
        )
        return configuration
    }

    /// The first control Redis, which has shard 0 of the queue.
    ///
    /// - Throws: `CLIError` if no URL is given.
    package func control() throws -> RedisConfiguration { try controls()[0] }

    /// The control Redis of the queue's shards.
    ///
    /// - Throws: `CLIError` if no URL is given.
    package func controls() throws -> [RedisConfiguration] {
        if redis.isEmpty {
            throw CLIError.usage(
                "no Redis is named: give --redis URL, or set MEGATON_REDIS or redis in a configuration file."
            )
        }
        var servers: [RedisConfiguration] = []
        for url in redis { servers.append(try configuration(url)) }
        try QueueAddress.check(servers)
        return servers
    }

    /// The queue and its servers.
    ///
    /// - Throws: `CLIError` if no URL is given.
    package func address() throws -> QueueAddress { QueueAddress(try controls(), queue: queue) }

    /// The addresses of the cache Redis; those of the control Redis if there is none.
    package func caches() throws -> [RedisConfiguration] {
        let servers = try servers(cacheRedis)
        return servers.isEmpty ? try controls() : servers
    }

    private func servers(_ urls: [String]) throws(RedisError) -> [RedisConfiguration] {
        var servers: [RedisConfiguration] = []
        for url in urls { servers.append(try configuration(url)) }
        try CacheNodes.check(servers)
        return servers
    }
}
