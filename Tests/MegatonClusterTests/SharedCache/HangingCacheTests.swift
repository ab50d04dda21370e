import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// A server of the cache that accepts connections and answers nothing delays neither the others nor the end of a
/// process.
@Suite(.timeLimit(.minutes(2))) struct HangingCacheTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let entry = CachedData(data: Data("one".utf8), metadata: .init(lifetime: 3600))

    /// A cache on two servers, the first of which is behind a proxy.
    private func withCache(
        _ body: (RedisDataCache, FaultProxy, _ reachable: RedisClient) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                try await FaultProxy.run(to: .unix(path: first.socket)) { (proxy) async throws in
                    let cache = RedisDataCache(
                        .init(),
                        servers: [try RedisConfiguration(url: proxy.url), second.configuration],
                        group: MultiThreadedEventLoopGroup.singleton,
                        logger: logger
                    )
                    defer { cache.close() }
                    let client = second.client()
                    defer { client.close() }
                    try await body(cache, proxy, client)
                    // The server sees the ends of its connections.
                    proxy.blackHole(false)
                }
            }
        }
    }

    private func lock(_ cache: RedisDataCache, _ owner: String) -> InFlightLock {
        InFlightLock(
            cache: cache,
            owner: owner,
            group: MultiThreadedEventLoopGroup.singleton,
            logger: logger
        )
    }

    /// Fault: the flights were ended one after the other, and the first one at each server took 5 s.
    @Test func theEndOfAProcessDoesNotWaitForIt() async throws {
        try await withCache { (cache, proxy, _) async throws in
            let (one, two) = (lock(cache, "one"), lock(cache, "two"))
            let keys = (0..<40).map { CacheKey(.rendition, ["\($0)"]) }
            let leads = await one.begin(keys).compactMap(\.leader)
            #expect(leads.count == 40 && leads.allSatisfy { $0.token != nil })
            proxy.blackHole(true)
            let start = ContinuousClock.now
            await one.abandonLeads(within: .seconds(2))
            #expect(start.duration(to: .now) < .seconds(5), "one limit for all flights and servers")
            #expect(one.leading.withLock { $0.all }.isEmpty)
            let others = keys.filter { cache.nodes[$0].index == 1 }
            let next = await two.begin(others).compactMap(\.leader)
            #expect(next.count == others.count && next.allSatisfy { $0.token != nil }, "these flights have ended")
        }
    }

    /// Fault: entries of the second server were stored after those of the first.
    @Test func entriesOfTheOtherServersAreStoredMeanwhile() async throws {
        try await withCache { (cache, proxy, client) async throws in
            let lock = lock(cache, "one")
            let keys = (0..<40).map { CacheKey(.rendition, ["\($0)"]) }
            // Those of the server that will hang are the first.
            let leads = await lock.begin(keys).compactMap(\.leader).sorted {
                cache.nodes[$0.key].index < cache.nodes[$1.key].index
            }
            let others = Set(keys.filter { cache.nodes[$0].index == 1 })
            proxy.blackHole(true)
            let start = ContinuousClock.now
            let finishing = Task { await lock.finish(leads.map { ($0, entry) }) }
            for key in others {
                while try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int != 1 { await Task.yield() }
            }
            #expect(start.duration(to: .now) < .seconds(4), "the first write at the server that hangs takes 5 s")
            proxy.blackHole(false)
            #expect(await finishing.value.isSuperset(of: others))
        }
    }

    /// Fault: each page of marks waited for all servers, so that those of the others came when their jobs had ended.
    @Test func sourcesOfTheOtherServersAreMarkedMeanwhile() async throws {
        try await withCache { (cache, proxy, client) async throws in
            proxy.blackHole(true)
            let sources = RepeatedSources(cache: cache, window: 1000, logger: logger)
            let start = ContinuousClock.now
            for round in 0..<3 {
                let jobs = (0..<40).map { Job(source: "https://example.org/\(round)/\($0)") }
                let all = try jobs.map { try #require($0.original) }
                let marks = all.filter { cache.nodes[$0].index == 1 }.map(CacheKeys.touch)
                #expect(!marks.isEmpty && marks.count < 40)
                sources.note(jobs + jobs)
                for mark in marks {
                    while try await client.send(["EXISTS", .string(mark)]).int != 1 { await Task.yield() }
                }
            }
            #expect(start.duration(to: .now) < .seconds(4), "a page of the server that hangs takes 5 s")
        }
    }
}
