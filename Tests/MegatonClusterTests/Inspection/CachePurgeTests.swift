import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// Deletions from a cache on several servers.
@Suite(.timeLimit(.minutes(2))) struct CachePurgeTests {
    /// Fault: if the server of one URL was away, the entries of all others stayed.
    @Test func aServerThatIsAwayKeepsNoEntryOfAnother() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            var configuration = RedisConfiguration(address: .unix(path: "/nowhere.sock"))
            configuration.commandTimeout = .milliseconds(20)
            let group = MultiThreadedEventLoopGroup.singleton
            let away = RedisClient(configuration, role: "test", group: group, logger: logger, waitsForReconnect: false)
            defer { away.close() }
            let caches = [away, fixture.redis]
            let nodes = CacheNodes(caches, logger: logger, statistics: nil)
            let urls = try (0..<40).map { try #require(URL(string: "https://example.org/\($0).jpg")) }
            let places = urls.map { nodes[CacheKey.original(of: ImageRequest(url: $0))].index }
            let first = try #require(places.firstIndex(of: 0))
            let last = try #require(places.lastIndex(of: 1))
            let key = CacheKey.original(of: ImageRequest(url: urls[last]))
            let lock = InFlightLock(
                cache: RedisDataCache(redis: fixture.redis, logger: logger),
                owner: "one",
                group: group,
                logger: logger
            )
            var entry = CachedData(data: Data("a".utf8), metadata: .init(lifetime: 3600))
            entry.metadata.source = urls[last].absoluteString
            let stored = await lock.store(entry, for: key)
            #expect(stored)
            let other = CacheKey(.original, ["other"])
            await lock.remember(Self.failure(of: urls[last]), for: other)
            let purge = CachePurge(caches: caches, queue: ShardedQueue(fixture.queue), logger: logger)
            await #expect(throws: RedisError.self) { () async throws in
                _ = try await purge.run(CacheSelection(urls: [urls[first], urls[last]]))
            }
            #expect(await lock.lookUp([key]).first??.data == nil)
            #expect(try await fixture.redis.send(["EXISTS", .string(CacheKeys.negative(other))]).int == 0)
        }
    }

    /// Fault: the beginning of a URL as a list has it selected nothing, as the entries have it percent-encoded.
    @Test(arguments: [
        ("https://h/\u{FC}n/", true), ("https://h/%C3%BCn", true), ("https://h/\u{FC}n/sub dir", true),
        ("HTTPS://H/%C3%BCn/", true), ("https://h/%c3", false), ("https://h/\u{FC}N", false),
    ])
    func aPrefixMayBeEncoded(_ prefix: String, _ isSelected: Bool) {
        let selection = CacheSelection(prefixes: [prefix])
        #expect(selection.includes(source: "https://h/%C3%BCn/sub%20dir/a.jpg") == isSelected)
        #expect(selection.includes(source: "https://H/%C3%BCn/sub%20dir/a.jpg") == isSelected)
        #expect(!selection.includes(source: "https://h.example/%C3%BCn/sub%20dir/a.jpg"))
    }

    private static func failure(of url: URL) -> ImagePipeline.Error {
        var error = ImagePipeline.Error(.notFound, "no such image")
        error.url = url.absoluteString
        return error
    }
}
