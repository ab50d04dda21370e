import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The delegate decides on storing originals and encoded images.
@Suite(.timeLimit(.minutes(2))) struct WillCacheTests {
    private let image = TestImage.quarters(width: 64, height: 64)
    private let other = TestImage.quarters(width: 32, height: 32)
    private let small = Rendition(width: 16, height: 16, format: .png)
    private let cache = CountingDataCache()
    /// The `isEncoded` argument of each call.
    private let asked = TestLog<Bool>()

    /// - Parameter kept: returns the data to store instead.
    private func worker(_ kept: @escaping @Sendable (Data, _ isEncoded: Bool) -> Data?) -> PipelineProbe {
        let delegate = TestDelegate {
            $0.willCache = { [asked] data, isEncoded in
                asked.append(isEncoded)
                return kept(data, isEncoded)
            }
        }
        return PipelineProbe(cache, delegate: delegate) { $0.imageCache = nil }
    }

    /// Renditions end after the originals they were made from are stored.
    private func load(_ worker: PipelineProbe, _ url: URL) async throws {
        _ = try await worker.pipeline.renditions([small], for: ImageRequest(url: url))
    }

    private func original(_ url: URL) -> Data? {
        cache.entries[CacheKey.original(of: ImageRequest(url: url)).description].flatMap {
            CachedData(encoded: $0)?.data
        }
    }

    @Test func anOriginalIsAskedAboutOnce() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let url = origin.url("/a")
            for _ in 0..<2 { try await load(worker { data, _ in data }, url) }
            #expect(asked.values == [false], "and renditions never")
            #expect(original(url) == image)
        }
    }

    @Test func anotherOriginalIsKept() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { [other] (origin) async throws in
            let (url, worker) = (origin.url("/a"), worker { _, _ in other })
            try await load(worker, url)
            let (data, _) = try await worker.pipeline.data(for: url)
            #expect(data == other && original(url) == other && origin.total == 1)
        }
    }

    @Test func anOriginalThatIsNotToBeKept() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let (url, worker) = (origin.url("/a"), worker { _, _ in nil })
            for _ in 0..<2 { _ = try await worker.pipeline.data(for: url) }
            #expect(origin.total == 2 && original(url) == nil)
        }
    }

    /// The delegate saw it when it arrived, and may have replaced it, so a 304 does not ask again.
    @Test func aConfirmedEntryIsNotPassedToTheDelegateAgain() async throws {
        let site: @Sendable (OriginServer.Request) -> OriginServer.Answer = { [image] request in
            let fields = [("ETag", "\"1\""), ("Cache-Control", "max-age=0"), ("Content-Type", "image/png")]
            let isKnown = request.headers["if-none-match"] == "\"1\""
            return OriginServer.Answer(status: isKnown ? 304 : 200, headers: fields, body: isKnown ? Data() : image)
        }
        try await OriginServer.run(responding: site) { [other] (origin) async throws in
            for _ in 0..<2 { try await load(worker { _, _ in other }, origin.url("/a")) }
            #expect(asked.values == [false] && origin.total == 2)
            #expect(original(origin.url("/a")) == other)
        }
    }

    // Fault: a delegate that never returned blocked the flight, and all requests that shared it.
    @Test func aDelegateThatNeverReturnsBlocksNoRequest() async throws {
        final class Silent: ImagePipeline.Delegate {
            let gate = Promise<Void>()

            func willCache(
                data: Data,
                image: ImageContainer?,
                for request: ImageRequest,
                pipeline: ImagePipeline
            ) async -> Data? {
                await gate.value
                return data
            }
        }
        let delegate = Silent()
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let worker = PipelineProbe(cache, delegate: delegate) {
                $0.imageCache = nil
                $0.waitBudget = .milliseconds(1)
            }
            try await load(worker, origin.url("/a"))
            #expect(original(origin.url("/a")) == nil)
            delegate.gate.resolve(())
        }
    }

    @Test(arguments: [true, false]) func encodedImages(_ isKept: Bool) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let worker = worker { data, isEncoded in isEncoded && !isKept ? nil : data }
            let request = worker.request(origin.url("/a"), ["1"])
            _ = try await worker.pipeline.image(for: request)
            await worker.settle()
            #expect(asked.values.contains(true))
            #expect((cache.entries[worker.image(request)] != nil) == isKept)
        }
    }
}
