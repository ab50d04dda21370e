import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Renditions are read by the keys in outcomes.
@Suite(.timeLimit(.minutes(2))) struct RenditionReadingTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test func aRenditionIsReadByItsKey() async throws {
        try await RedisServerProcess.run { (server) async throws in
            let peer = InFlightLockTests.Peer(server.configuration, "one")
            defer { peer.client.close() }
            // Stale at once: it is the result of a job all the same.
            let data = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) })
            let metadata = CachedData.Metadata(etag: "\"e\"", width: 3, height: 4, lifetime: 0)
            let key = CacheKey(.rendition, ["reading"])
            guard case .lead(let leader) = await peer.lock.begin([key], after: []).first else {
                Issue.record("the first reader leads")
                return
            }
            _ = await peer.lock.finish([(leader, CachedData(data: data, metadata: metadata))])
            let cache = RedisDataCache(
                servers: [server.configuration],
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Self.logger
            )
            defer { cache.close() }
            let other = CacheKey(.rendition, ["other"]).digest
            let found = try await cache.renditions([other, key.digest, "", "no key"])
            #expect(found == [nil, data, nil, nil])
        }
    }

    /// An entry of a server that does not answer is not lost.
    @Test func aServerThatDoesNotAnswerIsAnError() async throws {
        let cache = RedisDataCache(
            servers: [try RedisConfiguration(url: "redis://127.0.0.1:1")],
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Self.logger
        )
        defer { cache.close() }
        let error = await #expect(throws: RedisError.self) {
            _ = try await cache.renditions([CacheKey(.rendition, ["a"]).digest])
        }
        #expect(error?.isTransient == true)
    }
}
