import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct PipelineCacheTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func container(isPreview: Bool = false) throws -> ImageContainer {
        ImageContainer(image: try ImageDecoders.Default().decode(image).image, isPreview: isPreview)
    }

    private let url = URL(string: "http://example.com/a")!

    // A preview is stored in memory, and never in a data cache.
    @Test func previewsAreNeverOnDisk() async throws {
        let probe = PipelineProbe { $0.dataCachePolicy = .storeEncodedImages }
        let request = probe.request(url)
        try await probe.pipeline.cache.storeCachedImage(try container(isPreview: true), for: request)
        #expect(probe.cache.writes.isEmpty && probe.encodes == 0)
        #expect(probe.pipeline.cache[request]?.isPreview == true)
        #expect(await probe.pipeline.cache.cachedImage(for: request, caches: .disk) == nil)
    }

    // A preview in memory is delivered as a preview, and not as the result.
    @Test func aPreviewInMemoryIsNotTheAnswer() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"))
            probe.pipeline.cache[request] = try container(isPreview: true)
            origin.hold()
            let task = probe.pipeline.imageTask(with: request)
            await origin.waitForRequests("/a", count: 1)
            origin.release()
            let response = try await task.response
            #expect(!response.isPreview && response.cacheType == nil)
            #expect(probe.pipeline.cache[request]?.isPreview == false, "it took the preview's place")
        }
    }

    // Cached bytes that cannot be decoded are a miss, whether of an image, an intermediate image or an original.
    @Test(arguments: ["blob", "image", "part", "original"]) func corruptedDataAreAMiss(kind: String) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1"])
            let broken = image.prefix(image.count / 2)
            switch kind {
            case "blob": probe.cache.corrupt(probe.image(request), Data("rubbish".utf8))
            case "image": await probe.keep(broken, for: .image(of: request))
            case "part": await probe.keep(broken, for: .image(of: probe.request(origin.url("/a"))))
            default: await probe.keepOriginal(broken, of: request)
            }
            #expect(await probe.pipeline.cache.cachedImage(for: request) == nil)
            let response = try await probe.pipeline.imageTask(with: request).response
            #expect(response.cacheType == nil && response.container.steps == ["1"])
            #expect(origin.total == 1)
            await probe.settle()
            probe.pipeline.cache[request] = nil
            #expect(await probe.pipeline.cache.cachedImage(for: request) != nil, "it was replaced")
        }
    }

    private final class NamingDelegate: ImagePipeline.Delegate {
        func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String? { "mine" }
    }

    // A delegate's key is the key in both caches.
    @Test func aDelegateNamesImages() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let delegate = NamingDelegate()
            let probe = PipelineProbe(delegate: delegate) { $0.dataCachePolicy = .storeEncodedImages }
            _ = try await probe.pipeline.image(for: probe.request(origin.url("/a")))
            await probe.settle()
            #expect(probe.memory.keys == [ImageCacheKey(key: "mine")])
            var named = probe.request(origin.url("/a"))
            named.originalName = "mine"
            #expect(probe.cache.writes == [probe.original(named)])
            _ = try await probe.pipeline.image(for: probe.request(origin.url("/b")))
            #expect(origin.total == 1)
            await probe.pipeline.cache.removeAll(caches: .memory)
            let response = try await probe.pipeline.imageTask(with: probe.request(origin.url("/c"))).response
            #expect(response.cacheType == .disk && origin.total == 1)
        }
    }

    @Test func storesFindsAndRemoves() async throws {
        let probe = PipelineProbe()
        let (cache, request) = (probe.pipeline.cache, probe.request(url, ["1"]))
        #expect(await !cache.containsCachedImage(for: request))
        for caches in [ImagePipeline.Cache.Caches.memory, .disk, .all] {
            try await cache.storeCachedImage(try container(), for: request, caches: caches)
            #expect(await cache.containsCachedImage(for: request))
            #expect(await cache.containsCachedImage(for: request, caches: .memory) == caches.contains(.memory))
            #expect(await cache.containsCachedImage(for: request, caches: .disk) == caches.contains(.disk))
            #expect(await cache.cachedImage(for: request)?.image.size == PixelSize(width: 64, height: 64))
            await cache.removeCachedImage(for: request)
            #expect(await !cache.containsCachedImage(for: request))
        }
    }

    @Test func removingAllEmptiesWhatIsNamed() async throws {
        let probe = PipelineProbe()
        let (cache, request) = (probe.pipeline.cache, probe.request(url, ["1"]))
        for caches in [ImagePipeline.Cache.Caches.memory, .disk, .all] {
            try await cache.storeCachedImage(try container(), for: request)
            await cache.removeAll(caches: caches)
            #expect(await cache.containsCachedImage(for: request, caches: .memory) == !caches.contains(.memory))
            #expect(await cache.containsCachedImage(for: request, caches: .disk) == !caches.contains(.disk))
        }
    }

    @Test func dataOfAPlainRequestAreTheOriginals() async throws {
        let probe = PipelineProbe()
        let (cache, request) = (probe.pipeline.cache, probe.request(url))
        await cache.storeCachedData(image, for: request)
        #expect(probe.cache.writes == [probe.original(request)])
        #expect(try await probe.pipeline.data(for: request).data == image)
        #expect(await cache.cachedData(for: probe.request(url, ["1"])) == nil)
        await cache.removeCachedData(for: request)
        #expect(await !cache.containsData(for: request))
    }

    @Test func optionsAreHeeded() async throws {
        let probe = PipelineProbe()
        let cache = probe.pipeline.cache
        let silent = probe.request(url, ["1"], options: [.disableMemoryCacheWrites, .disableDiskCacheWrites])
        try await cache.storeCachedImage(try container(), for: silent)
        await cache.storeCachedData(image, for: silent)
        #expect(probe.memory.writes.isEmpty && probe.cache.writes.isEmpty)
        try await cache.storeCachedImage(try container(), for: probe.request(url, ["1"]))
        let blind = probe.request(url, ["1"], options: .reloadIgnoringCachedData)
        #expect(await cache.cachedImage(for: blind) == nil)
        #expect(await !cache.containsData(for: blind))
    }

    @Test func aKeptThumbnailIsNotMadeSmallerOnceMore() async throws {
        let probe = PipelineProbe()
        var request = probe.request(url)
        request.thumbnail = .init(maxPixelSize: 16)
        try await probe.pipeline.cache.storeCachedImage(try container(), for: request, caches: .disk)
        let kept = await probe.pipeline.cache.cachedImage(for: request)
        #expect(kept?.image.size == PixelSize(width: 64, height: 64))
    }
}
