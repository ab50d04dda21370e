import Foundation
import Logging
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// A single pipeline with a cache of stale entries. With several processes: `RevalidationTests`.
@Suite(.timeLimit(.minutes(2))) struct StaleTests {
    private final actor Memory: DataCaching {
        private var entries: [String: Data] = [:]

        func cachedData(for key: String) -> Data? { entries[key] }
        func storeData(_ data: Data, for key: String) { entries[key] = data }
        func removeData(for key: String) { entries[key] = nil }
    }

    private let small = Rendition(width: 32, height: 32, format: .png)

    private func pipeline(_ change: (inout ImagePipeline.Configuration) -> Void = { _ in }) throws -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        configuration.flights = LocalSingleFlight(cache: Memory())
        change(&configuration)
        return ImagePipeline(configuration: configuration)
    }

    private func site(_ control: String) -> @Sendable (OriginServer.Request) -> OriginServer.Answer {
        let image = TestImage.quarters(width: 64, height: 64)
        return { request in
            let headers = [("Cache-Control", control), ("ETag", "\"1\"")]
            return request.headers["if-none-match"] == "\"1\""
                ? OriginServer.Answer(status: 304, headers: headers) : .image(image, headers: headers)
        }
    }

    @Test func anUnchangedEntryIsNotFetchedAgain() async throws {
        try await OriginServer.run(responding: site("no-cache")) { (origin) async throws in
            let pipeline = try pipeline()
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            for number in 2...3 {
                let metrics = PipelineMetrics()
                let again = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
                #expect(again.data == first.data && again.source == .cache)
                #expect(metrics.counts.revalidations == 1 && metrics.counts.renders == 0)
                #expect(metrics.counts.bytesIn == 0 && origin.total == number)
            }
        }
    }

    @Test func aStaleEntryIsServedAndRevalidatedOnce() async throws {
        try await OriginServer.run(responding: site("max-age=0, stale-while-revalidate=60")) { (origin) async throws in
            let (refreshes, continuation) = AsyncStream.makeStream(of: PipelineMetrics.Counts.self)
            let pipeline = try pipeline { $0.didRefresh = { _, cost in continuation.yield(cost) } }
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            origin.hold()
            for _ in 0..<3 {
                let metrics = PipelineMetrics()
                let stale = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
                #expect(stale.data == first.data && metrics.counts.staleHits == 1)
                #expect(metrics.counts.originFetches == 0)
            }
            await origin.waitForRequests("/a", count: 2)
            origin.release()
            var iterator = refreshes.makeAsyncIterator()
            let cost = await iterator.next()
            #expect(cost?.revalidations == 1)
            #expect(origin.total == 2)
        }
    }

    @Test func refreshesEndWithTheirPipeline() async throws {
        try await OriginServer.run(responding: site("max-age=0, stale-while-revalidate=60")) { (origin) async throws in
            let (refreshes, continuation) = AsyncStream.makeStream(of: PipelineMetrics.Counts.self)
            var gone: ImagePipeline? = try pipeline { $0.didRefresh = { _, cost in continuation.yield(cost) } }
            let request = ImageRequest(url: origin.url("/a"))
            _ = try await gone?.renditions([small], for: request)
            origin.hold()
            _ = try await gone?.renditions([small], for: request)
            await origin.waitForRequests("/a", count: 2)
            gone = nil
            // The origin never responds: only the end of the pipeline can end the refresh.
            var iterator = refreshes.makeAsyncIterator()
            let cost = await iterator.next()
            #expect(cost?.revalidations == 0)
        }
    }

    @Test func aConditionOfTheAskersOwnHasNoEntryToBeAbout() async throws {
        try await OriginServer.run(responding: site("no-cache")) { (origin) async throws in
            var request = ImageRequest(url: origin.url("/a"))
            request.headers = ["If-None-Match": "\"1\""]
            await #expect(throws: ImagePipeline.Error.self) {
                try await pipeline().renditions([small], for: request)
            }
        }
    }

    @Test func eachKeyIsRefreshedOnceAndFewAtATime() async throws {
        let revalidator = BackgroundRevalidator(limit: 2, logger: Logger(label: "test"))
        let closed = TaskQueue(maxConcurrentOperationCount: 1)
        closed.isSuspended = true
        let (ends, continuation) = AsyncStream.makeStream(of: Void.self)
        let keys = (0..<4).map { CacheKey(.rendition, ["\($0)"]) }
        let work: @Sendable (Set<CacheKey>) async -> Void = { _ in
            // Only cancellation ends it.
            try? await closed.perform { () throws(ImagePipeline.Error) in }
            continuation.yield()
        }
        #expect(revalidator.start([keys[0], keys[1]], work).started == Set(keys[0...1]))
        let again = revalidator.start([keys[1]], work)
        #expect(again.started.isEmpty && again.rejected.isEmpty, "another task revalidates it")
        #expect(revalidator.start([keys[1], keys[2]], work).started == Set(keys[2...2]))
        let beyond = revalidator.start([keys[1], keys[3]], work)
        #expect(beyond.started.isEmpty && beyond.rejected == [keys[3]], "two are under way")
        revalidator.stop()
        var iterator = ends.makeAsyncIterator()
        for _ in 0..<2 { _ = await iterator.next() }
        #expect(revalidator.start([keys[3]], work).started.isEmpty, "it has stopped")
    }
}
