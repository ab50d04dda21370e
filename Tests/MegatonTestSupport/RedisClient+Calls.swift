import Logging
public import MegatonRedis
import NIOPosix

extension RedisClient {
    /// How often a command was called, by whomever, those out of scripts included.
    public func calls(_ command: String) async throws -> Int {
        let info = try await send(["INFO", "commandstats"]).string ?? ""
        let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line?.split(separator: "=").dropFirst().first.flatMap { Int($0.prefix { $0 != "," }) } ?? 0
    }
}

extension FaultProxy {
    /// A client of the Redis behind it.
    public func client(_ role: String = "test") throws -> RedisClient {
        RedisClient(
            try RedisConfiguration(url: url),
            role: role,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }
}
