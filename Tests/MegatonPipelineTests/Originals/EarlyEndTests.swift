import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Downloads of progressive JPEGs that end when the scans are there that a thumbnail needs.
@Suite(.timeLimit(.minutes(2))) struct EarlyEndTests {
    private static let image = Result { try TestImage.progressiveNoise(width: 960, height: 720) }
    private let small = Rendition(width: 90)

    private func pipeline(_ change: (inout ImagePipeline.Configuration) -> Void = { _ in }) -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        configuration.dataCachePolicy = .storeEncodedImages
        change(&configuration)
        return ImagePipeline(configuration: configuration)
    }

    /// The beginning of the image, with the scans for a quarter of its size.
    private func beginning(_ image: Data) throws -> Data {
        let scans = try #require(image.withUnsafeBytes { JPEGScanPrefix($0, for: .quarter) })
        try #require(image.count - scans.count > DownloadObserver.leastSaved + 1000)
        return image.prefix(scans.count + 1000)
    }

    /// An origin that breaks off behind the needed scans at the first request, and sends everything from then on.
    private func withBreakingOrigin(
        _ body: (OriginServer, Data) async throws -> Void
    ) async throws {
        let image = try Self.image.get()
        let beginning = try beginning(image)
        let requests = Atomic(0)
        try await OriginServer.run(answer: { _ in
            let isFirst = requests.add(1, ordering: .relaxed).oldValue == 0
            return .init(
                headers: [("Content-Type", "image/jpeg")],
                body: isFirst ? beginning : image,
                announcedLength: image.count
            )
        }) { (origin) async throws in
            try await body(origin, image)
        }
    }

    private func code(_ body: () async throws -> Void) async -> ImagePipeline.Error.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? ImagePipeline.Error)?.code
        }
    }

    @Test func theRestIsNotLoaded() async throws {
        try await withBreakingOrigin { (origin, image) async throws in
            let metrics = PipelineMetrics()
            let request = ImageRequest(url: origin.url("/a"))
            let part = try await pipeline().renditions([small], for: request, metrics: metrics)[0]
            #expect(metrics.counts.bytesIn < image.count - DownloadObserver.leastSaved)
            // The facts are about the whole source.
            #expect(part.facts?.bytes == image.count)
            let whole = try await pipeline { $0.dataCachePolicy = .storeAll }.renditions([small], for: request)[0]
            #expect(whole.data == part.data && whole.facts?.bytes == image.count)
            #expect(origin.count("/a") == 2)
        }
    }

    /// Why the rest is needed, and the rendition.
    @Test(arguments: [
        ("the size", Rendition(width: 900)), ("all damage is refused", Rendition(width: 90, failOn: .error)),
        ("damage is rendered as far as it goes", Rendition(width: 90, failOn: .nothing)),
        ("kept metadata", Rendition(width: 90, keepMetadata: .copyright)),
    ]) func renditionsThatNeedTheRestHaveIt(_ reason: String, _ rendition: Rendition) async throws {
        try await withBreakingOrigin { (origin, _) async throws in
            let request = ImageRequest(url: origin.url("/a"))
            let code = await code { _ = try await pipeline().renditions([rendition], for: request) }
            #expect(code == .incompleteBody, "\(reason)")
        }
    }

    @Test(arguments: [ImagePipeline.DataCachePolicy.storeAll, .storeOriginalData, .automatic, .storeReused])
    func originalsForACacheAreLoadedCompletely(_ policy: ImagePipeline.DataCachePolicy) async throws {
        try await withBreakingOrigin { (origin, _) async throws in
            let request = ImageRequest(url: origin.url("/a"))
            let pipeline = pipeline { $0.dataCachePolicy = policy }
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .incompleteBody)
        }
    }

    /// A request that joins a load which ends early loads the rest by itself.
    @Test func aRequestThatJoinsGetsTheWholeOriginal() async throws {
        try await withBreakingOrigin { (origin, image) async throws in
            let pipeline = pipeline()
            let request = ImageRequest(url: origin.url("/a"))
            origin.hold()
            async let part = pipeline.renditions([small], for: request)
            await origin.waitForRequests("/a", count: 1)
            async let whole = pipeline.data(for: request)
            while pipeline.originals.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
            origin.release()
            #expect(try await part[0].facts?.bytes == image.count)
            #expect(try await whole.0 == image)
            #expect(origin.count("/a") == 2)
        }
    }

    /// The load goes on for the request that joined, which needs more than the one that began it.
    @Test func aRequestIsNotAnsweredWithWhatAnotherNeeded() async throws {
        try await withBreakingOrigin { (origin, image) async throws in
            let pipeline = pipeline()
            let request = ImageRequest(url: origin.url("/a"))
            origin.hold()
            let first = Task { try await pipeline.renditions([small], for: request) }  // Cancelled and awaited below.
            await origin.waitForRequests("/a", count: 1)
            async let whole = pipeline.data(for: request)
            while pipeline.originals.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
            first.cancel()
            while pipeline.originals.subscriberCount > 1, !Task.isCancelled { await Task.yield() }
            origin.release()
            #expect(try await whole.0 == image)
            #expect(origin.count("/a") == 2)
            await #expect(throws: (any Swift.Error).self) { try await first.value }
        }
    }

    /// Two sizes at once need the same scans.
    @Test func aRequestThatNeedsNoMoreSharesTheLoad() async throws {
        try await withBreakingOrigin { (origin, image) async throws in
            let pipeline = pipeline()
            let request = ImageRequest(url: origin.url("/a"))
            origin.hold()
            async let one = pipeline.renditions([small], for: request)
            await origin.waitForRequests("/a", count: 1)
            async let two = pipeline.renditions([Rendition(width: 80)], for: request)
            while pipeline.originals.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
            origin.release()
            #expect(try await one[0].facts?.bytes == image.count)
            #expect(try await two[0].facts?.bytes == image.count)
            #expect(origin.count("/a") == 1)
        }
    }

    /// The bytes of the needed scans look whole and are not: only the render shows it.
    @Test func theWholeOriginalIsLoadedIfTheBeginningIsNotEnough() async throws {
        var image = try Self.image.get()
        let scans = try #require(image.withUnsafeBytes { JPEGScanPrefix($0, for: .quarter) })
        // Damage within the needed scans: the planes engine leaves the file to libvips, which judges all of it.
        image.replaceSubrange((scans.count / 2)..<(scans.count / 2 + 40), with: Data(repeating: 0, count: 40))
        let damaged = image
        try await OriginServer.run(answer: { _ in .image(damaged) }) { (origin) async throws in
            let request = ImageRequest(url: origin.url("/a"))
            let metrics = PipelineMetrics()
            let early = await code { _ = try await pipeline().renditions([small], for: request, metrics: metrics) }
            let whole = await code {
                _ = try await pipeline { $0.dataCachePolicy = .storeAll }.renditions([small], for: request)
            }
            #expect(early == whole)
        }
    }

    @Test func theDecisionIsMadeWhenTheHeaderIsThere() throws {
        let image = try Self.image.get()
        let engine = RenderEngineChoice.auto.engine
        let scans = SufficientScans(for: [small], engine, RenderLimits())
        let beginning = try beginning(image)
        for length in [0, 2, 3, 100, 700] { #expect(!scans.areIn(image.prefix(length))) }
        #expect(scans.areIn(beginning) && scans.areIn(image))
        for other in [
            TestImage.quarters(width: 64, height: 64), try TestImage.jpeg(width: 640, height: 480), Data("x".utf8),
        ] {
            #expect(!SufficientScans(for: [small], engine, RenderLimits()).areIn(other))
        }
        var limits = RenderLimits()
        limits.pixels = 1000
        #expect(!SufficientScans(for: [small], engine, limits).areIn(image), "the render reports that it is too large")
    }
}
