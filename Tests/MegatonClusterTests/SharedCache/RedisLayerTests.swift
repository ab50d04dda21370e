import Foundation
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

/// Hits of the shared cache are reported, both as a layer and behind the lock.
@Suite(.timeLimit(.minutes(2))) struct RedisLayerTests {
    private func loader() -> DataLoader {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        return DataLoader(loader)
    }

    private func withRedis(_ body: (RedisDataCache, ImageRequest) async throws -> Void) async throws {
        let image = TestImage.quarters(width: 16, height: 8)
        let answer = OriginServer.Answer.image(image, headers: [("Cache-Control", "max-age=3600")])
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
                try await body(RedisDataCache(redis: client, logger: logger), ImageRequest(url: origin.url("/a")))
            }
        }
    }

    @Test func beneathAMemory() async throws {
        try await withRedis { (redis, request) async throws in
            let memory = MemoryDataCache()
            let pipeline = ImagePipeline {
                $0.dataLoader = loader()
                $0.dataCache = LayeredDataCache([memory, redis])
            }
            try await pipeline.prefetch(request)
            await memory.removeAll()
            for layer in ["redis", "memory"] {
                #expect(try await pipeline.imageTask(with: request).response.cacheLayer == layer)
            }
        }
    }

    /// Pipelines that are made as a program outside of this package makes them.
    @Test func ofPipelinesThatShareALock() async throws {
        let answer = OriginServer.Answer.image(
            TestImage.quarters(width: 16, height: 8),
            headers: [("Cache-Control", "max-age=3600")]
        )
        try await RedisServerProcess.run { server in
            try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
                for layer in [nil, "redis"] {
                    let cache = try RedisDataCache(redis: server.url)
                    let lock = InFlightLock(cache: cache)
                    let running = Task { await lock.run() }
                    let pipeline = ImagePipeline {
                        $0.dataLoader = loader()
                        $0.share(lock)
                    }
                    let request = ImageRequest(url: origin.url("/a"))
                    let image = try await pipeline.renditions([Rendition(width: 4, format: .png)], for: request)[0]
                    #expect(image.cacheLayer == layer)
                    running.cancel()
                    await running.value
                    cache.close()
                }
            }
        }
    }

    @Test func behindTheLock() async throws {
        try await withRedis { (redis, request) async throws in
            let pipeline = ImagePipeline {
                $0.dataLoader = loader()
                $0.flights = InFlightLock(
                    cache: redis,
                    owner: "one",
                    group: MultiThreadedEventLoopGroup.singleton,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                )
            }
            let (wanted, metrics) = ([Rendition(width: 4, format: .png)], PipelineMetrics())
            #expect(try await pipeline.renditions(wanted, for: request)[0].cacheLayer == nil)
            #expect(try await pipeline.renditions(wanted, for: request, metrics: metrics)[0].cacheLayer == "redis")
            #expect(metrics.counts.layers == ["redis": 1])
            #expect(try await pipeline.imageTask(with: request).response.cacheLayer == "redis")
        }
    }
}
