import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// A cache on several servers.
@Suite(.timeLimit(.minutes(2))) struct CacheNodesTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let keys = (0..<3000).map { CacheKey(.rendition, ["\($0)"]) }
    private let entry = CachedData(data: Data("one".utf8), metadata: .init(lifetime: 3600))

    private func clients(_ sockets: [String]) throws -> [RedisClient] {
        try sockets.map { try RedisServerProcess.client(ofSocket: $0) }
    }

    /// The server of each key.
    private func owners(_ sockets: [String]) throws -> [String] {
        let clients = try clients(sockets)
        defer { for client in clients { client.close() } }
        let nodes = CacheNodes(clients, logger: logger, statistics: nil)
        return keys.map { "\(nodes[$0].redis.configuration)" }
    }

    @Test func eachServerHasItsShareInWhateverOrderTheyAreNamed() throws {
        let found = try owners(["/a", "/b", "/c", "/d"])
        let shares = Dictionary(grouping: found) { $0 }.mapValues(\.count)
        #expect(shares.count == 4 && shares.values.allSatisfy { (600...900).contains($0) }, "\(shares)")
        #expect(try owners(["/d", "/b", "/a", "/c"]) == found)
    }

    @Test func onlyTheKeysOfARemovedServerMove() throws {
        let (all, rest) = (try owners(["/a", "/b", "/c", "/d"]), try owners(["/a", "/b", "/d"]))
        for (before, after) in zip(all, rest) where before != after { #expect(before.hasSuffix("/c")) }
        #expect(!rest.contains { $0.hasSuffix("/c") })
    }

    /// The keys of an entry, its flight and its failure have the hash tag by which the server is chosen.
    @Test(arguments: [
        (["redis://a:6379", "redis://b:6379"], ["redis://:secret@a:6379", "redis://me:other@b:6379"]),
        (
            ["redis-sentinel://h,i:1/one", "redis+cluster://a:1,b:2"],
            ["redis-sentinel://i:1,h/one", "redis+cluster://b:2,a:1"]
        ),
    ])
    func passwordsAndTheOrderOfHostsHaveNoInfluence(_ urls: [String], _ sameURLs: [String]) throws {
        let clients = try urls.map { try RedisConfiguration(url: $0) }
        let others = try sameURLs.map { try RedisConfiguration(url: $0) }
        func nodes(_ servers: [RedisConfiguration]) -> CacheNodes {
            let group = MultiThreadedEventLoopGroup.singleton
            let clients = servers.map { RedisClient($0, role: "test", group: group, logger: logger) }
            return CacheNodes(clients, logger: logger, statistics: nil)
        }
        let (one, two) = (nodes(clients), nodes(others))
        #expect(keys.map { one[$0].index } == keys.map { two[$0].index })
        one.close()
        two.close()
    }

    @Test func aServerMayBeNamedOnce() throws {
        let twice = try ["redis://a", "redis://b", "redis://:x@a:6379"].map { try RedisConfiguration(url: $0) }
        #expect { try CacheNodes.check(twice) } throws: {
            ($0 as? RedisError)?.code == .invalidConfiguration && "\($0)".contains("redis://a:6379 is named twice")
        }
        let reversed = try ["redis+cluster://a,b", "redis+cluster://b,a"].map { try RedisConfiguration(url: $0) }
        #expect(throws: RedisError.self) { try CacheNodes.check(reversed) }
        #expect(throws: ClusterError.self) {
            try Worker.Configuration(redis: "redis://a", cacheRedis: ["redis://b", "redis://b"])
        }
        #expect(try Worker.Configuration(redis: "redis://a", cacheRedis: []).caches.isEmpty)
        #expect(try Worker.Configuration(redis: "redis://a").caches == [RedisConfiguration(url: "redis://a")])
    }

    @Test func resultsKeepTheOrderOfTheirItems() async throws {
        let clients = try clients(["/a", "/b", "/c"])
        defer { for client in clients { client.close() } }
        let nodes = CacheNodes(clients, logger: logger, statistics: nil)
        let found = await nodes.perform(keys, by: \.digest) { node, keys in keys.map { "\(node.index) \($0)" } }
        #expect(found == keys.map { "\(nodes[$0].index) \($0)" })
    }

    /// One lost server of three costs its share of the entries, and no error.
    @Test func aLostServerCostsItsShareOfTheEntries() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let lost = try await RedisServerProcess.start()
                let servers = [first, second, lost]
                let cache = RedisDataCache(
                    .init(),
                    servers: servers.map(\.configuration),
                    group: MultiThreadedEventLoopGroup.singleton,
                    logger: logger
                )
                defer { cache.close() }
                let lock = InFlightLock(
                    cache: cache,
                    owner: "one",
                    group: MultiThreadedEventLoopGroup.singleton,
                    logger: logger
                )
                let keys = Array(keys.prefix(60))
                let leads = await lock.begin(keys).compactMap(\.leader)
                #expect(leads.count == 60 && leads.allSatisfy { $0.token != nil })
                #expect(await lock.finish(leads.map { ($0, entry) }) == Set(keys))
                for key in keys { await cache.storeData(entry.data, for: "data \(key)") }
                #expect(await lock.lookUp(keys).allSatisfy { $0?.data == entry.data })
                for server in servers {
                    let client = server.client()
                    defer { client.close() }
                    #expect(try await client.send(["DBSIZE"]).int ?? 0 > 10)
                }
                await lost.crash()
                let isLost = keys.map { cache.nodes[$0].index == 2 }
                let found = await lock.begin(keys)
                for (decision, isLost) in zip(found, isLost) {
                    switch decision {
                    case .hit: #expect(!isLost)
                    case .lead(let lead): #expect(isLost && lead.token == nil)
                    default: Issue.record("\(decision)")
                    }
                }
                #expect(await lock.lookUp(keys).map { $0 == nil } == isLost)
                let data = await cache.cachedData(for: keys.map { "data \($0)" })
                #expect(data.contains { $0 == nil } && data.count { $0 != nil } > 20)
                await lock.discard(keys[0])
                await cache.removeData(for: "data \(keys[0])")
                #expect(await lock.lookUp([keys[0]]) == [nil])
                // It returns, without its entries, which are stored again.
                try await lost.startAgain()
                let missing = try #require(zip(keys, isLost).first { $0.1 }).0
                var lead = await lock.begin([missing]).first?.leader
                while lead?.token == nil {
                    await Task.yield()
                    lead = await lock.begin([missing]).first?.leader
                }
                #expect(await lock.finish([(try #require(lead), entry)]) == [missing])
                #expect(await lock.lookUp([missing]).first??.data == entry.data)
                await lost.stop()
            }
        }
    }

    /// Statistics are sums, and a lost server is named in them.
    @Test func statisticsCoverAllServers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let clients = [fixture.redis, server.client()]
                defer { clients[1].close() }
                for client in clients { try await client.send(["HSET", "megaton:r:{a}", "m", "x"]) }
                let both = try await Inspector(queue: fixture.queue, caches: clients).cacheStatistics()
                #expect(both.kinds["renditions"]?.keys == 2 && both.scanIsComplete)
                #expect(both.nodes.map(\.address) == clients.map { "\($0.configuration)" })
                let missing = try RedisServerProcess.client(ofSocket: "\(server.directory.path)/none.sock")
                defer { missing.close() }
                let some = try await Inspector(queue: fixture.queue, caches: clients + [missing]).cacheStatistics()
                #expect(some.kinds["renditions"]?.keys == 2 && !some.scanIsComplete)
                #expect(some.nodes.map { $0.error == nil } == [true, true, false])
                await #expect(throws: RedisError.self) {
                    try await Inspector(queue: fixture.queue, caches: [missing]).cacheStatistics()
                }
            }
        }
    }
}
