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
