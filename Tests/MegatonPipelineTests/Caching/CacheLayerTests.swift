import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Responses and metrics name the cache layer that answered.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct CacheLayerTests {
    private let png = TestPipeline.png
    private let fixture: DataCacheFixture
    private let memory = MemoryDataCache()
    private let disk: DataCache

    init() throws {
        fixture = try DataCacheFixture()
        disk = try fixture.cache()
    }

    private func pipeline(_ cache: any DataCaching) -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        return TestPipeline.make(DataLoader(loader)) { $0.dataCache = cache }
    }

    private func withOrigin(_ body: (OriginServer) async throws -> Void) async throws {
        let answer = OriginServer.Answer.image(png, headers: [("Cache-Control", "max-age=3600")])
        try await OriginServer.run(answer: { _ in answer }, body)
    }

    /// Loads an image, and checks that the task's metrics name the same cache as the response.
    private func load(_ request: ImageRequest, _ pipeline: ImagePipeline) async throws -> ImageResponse {
        let task = pipeline.imageTask(with: request)
        let response = try await task.response
        #expect(task.metrics.cacheType == response.cacheType && task.metrics.cacheLayer == response.cacheLayer)
        while pipeline.revalidator.count > 0, !Task.isCancelled { await Task.yield() }
        return response
    }

    @Test func theLayerThatHadAnOriginal() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline(LayeredDataCache([memory, disk]))
            let request = ImageRequest(url: server.url("/a"))
            let first = try await load(request, pipeline)
            #expect(first.cacheType == nil && first.cacheLayer == nil)
            try await pipeline.prefetch(request)
            await memory.removeAll()
            for layer in ["disk", "memory"] {
                let hit = try await load(request, pipeline)
                #expect(hit.cacheType == .disk && hit.cacheLayer == layer)
            }
        }
    }

    /// A cached encoded image, and an image made from a cached original.
    @Test func theLayerThatHadAnImageOrAStepToIt() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline(LayeredDataCache([memory, disk]))
            let small = ImageRequest(url: server.url("/a"), processors: [ImageProcessors.Resize(width: 8)])
            let smaller = ImageRequest(url: server.url("/a"), processors: [ImageProcessors.Resize(width: 4)])
            #expect(try await load(small, pipeline).cacheLayer == nil)
            try await pipeline.prefetch(ImageRequest(url: server.url("/a")))
            await memory.removeAll()
            #expect(try await load(smaller, pipeline).cacheLayer == "disk")
            for layer in ["disk", "memory"] { #expect(try await load(small, pipeline).cacheLayer == layer) }
        }
    }

    @Test func memoryHasNoLayers() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = TestPipeline.make(pipeline(memory).configuration.dataLoader) {
                $0.imageCache = ImageCache()
                $0.dataCache = memory
            }
            let request = ImageRequest(url: server.url("/a"))
            _ = try await load(request, pipeline)
            let hit = try await load(request, pipeline)
            #expect(hit.cacheType == .memory && hit.cacheLayer == nil)
        }
    }

    @Test func theLayersThatHadRenditions() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline(LayeredDataCache([memory, disk]))
            let request = ImageRequest(url: server.url("/a"))
            func make(_ widths: [Int]) async throws -> (layers: [String?], counts: [String: Int]) {
                let metrics = PipelineMetrics()
                let wanted = widths.map { Rendition(width: $0, format: .png) }
                let made = try await pipeline.renditions(wanted, for: request, metrics: metrics)
                return (made.map(\.cacheLayer), metrics.counts.layers)
            }
            let first = try await make([4, 8])
            #expect(first.layers == [nil, nil] && first.counts == [:])
            await memory.removeAll()
            #expect(try await make([4]).layers == ["disk"])
            let mixed = try await make([4, 8])
            #expect(mixed.layers == ["memory", "disk"] && mixed.counts == ["memory": 1, "disk": 1])
            await memory.removeAll()
            let other = try await make([5])
            #expect(other.layers == [nil] && other.counts == ["disk": 1], "of a kept original")
        }
    }

    /// Nested layers report their own names.
    @Test func layersMayHaveLayers() async {
        let inner = LayeredDataCache([memory, disk])
        let outer = LayeredDataCache([DataCachingConformanceTests.NukeStyleCache(), inner])
        await disk.storeData(png, for: "a")
        for layer in ["disk", "NukeStyleCache"] {
            #expect(await outer.hits(for: ["b", "a"]) == [nil, CacheHit(data: png, layer: layer)])
        }
    }

    /// A cache as it was written for Nuke: two synchronous methods, and no layers.
    @Test(arguments: [true, false]) func aCacheMadeForNukeIsCalledByItsType(isLayer: Bool) async throws {
        try await withOrigin { (server) async throws in
            let own = DataCachingConformanceTests.NukeStyleCache()
            let pipeline = pipeline(isLayer ? LayeredDataCache([memory, own]) : own)
            let request = ImageRequest(url: server.url("/a"))
            try await pipeline.prefetch(request)
            await memory.removeAll()
            #expect(try await load(request, pipeline).cacheLayer == "NukeStyleCache")
        }
    }
}
