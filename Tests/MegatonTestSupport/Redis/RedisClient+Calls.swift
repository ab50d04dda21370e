import Logging
package import MegatonRedis
import NIOPosix

extension RedisClient {
    /// Number of calls of a command by all clients, including calls from scripts.
    package func calls(_ command: String) async throws -> Int {
        let info = try await send(["INFO", "commandstats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line?.split(separator: "=").dropFirst().first.flatMap { Int($0.prefix { $0 != "," }) } ?? 0
    }

    /// Makes the default queue take an origin for a host that has answered. Such a host gets as many requests at a time
    /// as its limits allow, also while the origin holds them; a new one gets few.
    package func noteAnswer(of origin: OriginServer) async throws {
        let state: RedisArgument = "0 0 1 0 0 0 0 200000 0 0 0 1"
        try await send(["HSET", "megaton:{default}:2:rate", .string("127.0.0.1:\(origin.port)"), state])
    }
}

extension FaultProxy {
    /// A client of the Redis behind the proxy.
    ///
    /// - Parameter commandTimeout: nil for the default.
    package func client(_ role: String = "test", commandTimeout: Duration? = nil) throws -> RedisClient {
        var configuration = try RedisConfiguration(url: url)
        if let commandTimeout { configuration.commandTimeout = commandTimeout }
        return RedisClient(
            configuration,
            role: role,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }
}
