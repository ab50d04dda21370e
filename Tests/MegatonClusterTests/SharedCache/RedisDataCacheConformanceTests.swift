import Logging
import MegatonCluster
import MegatonPipelineTesting
import MegatonRedis
import MegatonTestSupport
import Testing

/// The cache that all processes share conforms to `DataCaching`.
@Suite(.timeLimit(.minutes(2))) struct RedisDataCacheConformanceTests {
    /// Other processes use the same Redis, so `removeAll` does not empty it.
    @Test(arguments: DataCachingConformance.Check.allCases.filter { $0 != .removeAll })
    func conforms(_ check: DataCachingConformance.Check) async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            try await DataCachingConformance(RedisDataCache(redis: client, logger: logger)).run(check)
        }
    }
}
