import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// The delegate's `dataCache(for:pipeline:)`.
@Suite(.timeLimit(.minutes(2))) struct DelegateDataCacheTests {
    private final class Delegate: ImagePipeline.Delegate {
        let special: (any DataCaching)?

        init(_ special: (any DataCaching)?) { self.special = special }

        func dataCache(for request: ImageRequest, pipeline: ImagePipeline) -> (any DataCaching)? {
            request.userInfo["special"] == nil ? pipeline.usualDataCache : special
        }
    }

    private let image = TestImage.quarters(width: 64, height: 64)
    private let small = Rendition(width: 32, height: 32, format: .png)

    /// Loads an image, bytes and a rendition of the same source, one after the other.
    private func load(_ probe: PipelineProbe, _ url: URL, special: Bool, isKept: Bool = true) async throws {
        var request = probe.request(url, ["1"])
        if special { request.userInfo["special"] = true }
        _ = try await probe.pipeline.image(for: request)
        await probe.settle()
        _ = try await probe.pipeline.renditions([small], for: request)
        request.processors = []
        _ = try await probe.pipeline.data(for: request)
        #expect(await probe.pipeline.cache.containsData(for: request) == isKept)
    }

    @Test func aRequestMayBeKeptSomewhereElse() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let special = CountingDataCache()
            let probe = PipelineProbe(delegate: Delegate(special)) { $0.imageCache = nil }
            for _ in 0..<2 { try await load(probe, origin.url("/a"), special: true) }
            #expect(origin.total == 1)
            #expect(special.entries.count == 3 && probe.cache.entries.isEmpty && probe.cache.lookups.isEmpty)
            for _ in 0..<2 { try await load(probe, origin.url("/a"), special: false) }
            #expect(origin.total == 2)
            #expect(Set(probe.cache.entries.keys) == Set(special.entries.keys))
        }
    }

    @Test func aRequestMayBeKeptNowhere() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let probe = PipelineProbe(delegate: Delegate(nil)) { $0.imageCache = nil }
            try await load(probe, origin.url("/a"), special: true, isKept: false)
            #expect(origin.total == 3)
            #expect(probe.cache.entries.isEmpty && probe.cache.lookups.isEmpty)
        }
    }

    /// A coordinator that must not be called.
    private struct Forbidden: SingleFlightCoordinating {
        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            Issue.record("a delegate's cache takes the place of the flights")
            return keys.map { .lead(SingleFlight.Leader(key: $0, token: nil)) }
        }

        func lookUp(_ keys: [CacheKey]) async -> [CachedData?] {
            Issue.record("a delegate's cache takes the place of the flights")
            return keys.map { _ in nil }
        }

        func wait(for flight: SingleFlight.Waiter) async {}
        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }
        func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {}
    }

    @Test func itTakesThePlaceOfFlights() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let special = CountingDataCache()
            let probe = PipelineProbe(delegate: Delegate(special)) { $0.flights = Forbidden() }
            try await load(probe, origin.url("/a"), special: true)
            #expect(special.entries.count == 3 && origin.total == 1)
        }
    }

    /// Without a cache from the delegate the configuration's single flight is used; a delegate without the method
    /// changes nothing.
    @Test func theConfigurationsIsTheUsualOne() async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let kept = CountingDataCache()
            let probe = PipelineProbe(delegate: TestDelegate()) {
                $0.flights = LocalSingleFlight(cache: kept)
                $0.dataCache = nil
            }
            try await load(probe, origin.url("/a"), special: false)
            #expect(kept.entries.count == 3 && probe.cache.lookups.isEmpty)
        }
    }
}
