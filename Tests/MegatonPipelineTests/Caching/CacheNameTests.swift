import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// A request has one key in the data caches, whichever call stores or reads.
@Suite(.timeLimit(.minutes(2))) struct CacheNameTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    private func container() throws -> ImageContainer {
        ImageContainer(image: try ImageDecoders.Default().decode(image).image)
    }

    @Test(arguments: [[], ["1"]]) func aStoredImageIsFoundAsBytes(_ steps: [String]) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), steps)
            try await probe.pipeline.cache.storeCachedImage(try container(), for: request, caches: .disk)
            let data = try await probe.pipeline.data(for: request).data
            #expect(AssetType(data) == .png && origin.total == 0)
            #expect(try await probe.pipeline.image(for: request).size == PixelSize(width: 64, height: 64))
            #expect(await probe.pipeline.cache.cachedData(for: request) == data)
            #expect(origin.total == 0)
        }
    }

    /// An image made by a closure has no original bytes, only the stored encoded ones.
    @Test func aStoredImageOfAClosureIsFoundAsBytes() async throws {
        let probe = PipelineProbe()
        let request = ImageRequest(id: "a", image: { try TestPipeline.container() })
        try await probe.pipeline.cache.storeCachedImage(try container(), for: request, caches: .disk)
        #expect(AssetType(try await probe.pipeline.data(for: request).data) == .png)
        #expect(try await probe.pipeline.image(for: request).size == PixelSize(width: 64, height: 64))
    }

    @Test func anEncodedImageIsFoundAsBytes() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeEncodedImages }
            let request = probe.request(origin.url("/a"))
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            #expect(try await !probe.pipeline.data(for: request).data.isEmpty)
            #expect(origin.total == 1 && probe.encodes == 1)
            #expect(probe.cache.writes == [probe.pipeline.cache.makeDataCacheKey(for: request).description])
        }
    }

    @Test(arguments: [[], ["1"]]) func aNameIsThatOfWhatIsStored(_ steps: [String]) async throws {
        let probe = PipelineProbe()
        let request = probe.request(TestPipeline.url, steps)
        await probe.pipeline.cache.storeCachedData(image, for: request)
        #expect(probe.cache.writes == [probe.pipeline.cache.makeDataCacheKey(for: request).description])
        #expect(try await probe.pipeline.data(for: request).data == image)
    }

    /// Entries without an envelope, as another program or Nuke stores them.
    @Test(arguments: [[], ["1"]]) func bytesWithoutAnEnvelopeAreUnderstood(_ steps: [String]) async throws {
        let probe = PipelineProbe()
        let request = probe.request(TestPipeline.url, steps)
        await probe.cache.storeData(image, for: probe.pipeline.cache.makeDataCacheKey(for: request).description)
        #expect(try await probe.pipeline.data(for: request).data == image)
        #expect(try await probe.pipeline.image(for: request).size == PixelSize(width: 64, height: 64))
        #expect(await probe.pipeline.cache.cachedData(for: request) == image)
    }

    /// Bytes that were encoded here are no source of renditions: they may be in another format, or hold one frame of
    /// several.
    @Test func renditionsAreMadeOfTheOriginal() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"))
            let small = ImageContainer(image: try ImageDecoders.Default().decode(TestPipeline.png).image)
            try await probe.pipeline.cache.storeCachedImage(small, for: request, caches: .disk)
            let rendition = Rendition(width: 32, height: 32, format: .png)
            let made = try await probe.pipeline.renditions([rendition], for: request)
            #expect(made.map(\.size) == [PixelSize(width: 32, height: 32)] && origin.total == 1)
            #expect(try await probe.pipeline.image(for: request).size == small.image.size, "and it stays")
        }
    }

    // MARK: - Delegates

    private final class QuerylessDelegate: ImagePipeline.Delegate {
        func cacheKey(for request: ImageRequest, pipeline: ImagePipeline) -> String? {
            request.url?.path.appending(request.processors.map(\.identifier).joined())
        }
    }

    @Test(arguments: [[], ["1"]]) func aDelegateNamesOriginals(_ steps: [String]) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe(delegate: QuerylessDelegate()) { $0.imageCache = nil }
            let request = { (token: Int) in probe.request(origin.url("/a?token=\(token)"), steps) }
            _ = try await probe.pipeline.image(for: request(1))
            await probe.settle()
            _ = try await probe.pipeline.image(for: request(2))
            _ = try await probe.pipeline.data(for: request(3))
            _ = try await probe.pipeline.renditions([Rendition(width: 8, format: .png)], for: request(4))
            try await probe.pipeline.prefetch(request(5))
            #expect(origin.total == 1)
            _ = try await probe.pipeline.data(for: origin.url("/b?token=1"))
            #expect(origin.total == 2)
        }
    }

    @Test func requestsWithOneKeyOfTheDelegateShareADownload() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe(delegate: QuerylessDelegate()) { $0.imageCache = nil }
            origin.hold()
            let tasks = (1...2).map { probe.pipeline.imageTask(with: origin.url("/a?token=\($0)")) }
            await probe.waitForImages(2)
            origin.release()
            for task in tasks { _ = try await task.response }
            #expect(origin.total == 1)
        }
    }

    /// A cache key from a delegate does not include the credential scope.
    @Test func scopesStayApartUnderADelegatesName() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe(delegate: QuerylessDelegate()) { $0.imageCache = nil }
            for scope in ["a", "b"] {
                var request = probe.request(origin.url("/a"))
                request.credentialScope = scope
                _ = try await probe.pipeline.data(for: request)
            }
            #expect(origin.total == 2)
        }
    }
}
