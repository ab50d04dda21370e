import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// How long a rendition may be used, by the metadata of its original.
@Suite struct RenditionFreshnessTests {
    private func freshness(_ control: String?, staleness: Double? = nil) -> RenditionFreshness? {
        var metadata = CachedData.Metadata(lifetime: 50, staleWhileRevalidate: 30)
        metadata.headers = control.map { ["cache-control": $0] }
        let cached = CachedData(data: Data([1]), metadata: metadata, staleness: staleness)
        return RenditionResponse(Rendition(name: "small", width: 8), cached).freshness
    }

    @Test func theOriginStatesALifetimeOrNot() {
        #expect(freshness("max-age=60")?.isStated == true)
        #expect(freshness("no-cache")?.isStated == true)
        #expect(freshness("no-cache=\"set-cookie\"")?.isStated == false)
        #expect(freshness("public")?.isStated == false)
        #expect(freshness(nil)?.isStated == false)
        #expect(freshness("max-age=60")?.lifetime == 50)
        #expect(freshness("max-age=60")?.mayBeStale == true)
        #expect(freshness("must-revalidate")?.mayBeStale == false)
        #expect(freshness("no-cache")?.mayBeStale == false && freshness("no-cache=\"a\"")?.mayBeStale == true)
    }

    /// Fault: a rendition was fresh for longer than its original, by the time that its render had waited.
    @Test(.timeLimit(.minutes(2)), arguments: [false, true])
    func aRenditionIsNotFreshForLongerThanItsOriginal(isCached: Bool) async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in
            .image(image, headers: [("Cache-Control", "max-age=3600")])
        }) { (origin) async throws in
            let minutes = TaskTestBox(0)
            let probe = PipelineProbe {
                // A minute passes between any two looks at the clock.
                $0.date = {
                    let passed = minutes.withLock { minutes -> Int in
                        minutes += 1
                        return minutes
                    }
                    return Date() + Double(passed * 60)
                }
            }
            let request = ImageRequest(url: origin.url("/a"))
            let original = CacheKey.original(of: request)
            if isCached { _ = try await probe.pipeline.data(for: request) }
            let wanted = Rendition(width: 32, format: .png)
            let made = try await probe.pipeline.renditions([wanted], for: request)[0]
            #expect(made.source == .render && origin.total == 1)
            #expect(try #require(made.freshness).lifetime <= 3540)
            let entries = await probe.pipeline.configuration.coordinator.lookUp([original, original.rendition(wanted)])
            for entry in entries { #expect(try #require(entry).metadata.lifetime <= 3540) }
        }
    }

    @Test func clientsMayHaveAShorterLifetime() {
        #expect(freshness("max-age=60")?.clientLifetime == nil)
        // 50 s are left for shared caches.
        #expect(freshness("s-maxage=70, max-age=60")?.clientLifetime == 40)
        #expect(freshness("s-maxage=50, max-age=60")?.clientLifetime == 60)
        #expect(freshness("s-maxage=600, max-age=60")?.clientLifetime == 0, "it is 550 s old")
        #expect(freshness("s-maxage=600, max-age=soon")?.clientLifetime == nil)
    }

    @Test func aStaleRenditionHasTheRestOfItsWindow() {
        let stale = freshness("max-age=60, stale-while-revalidate=30", staleness: 10)
        #expect(stale == RenditionFreshness(lifetime: 0, staleWhileRevalidate: 20))
    }

    @Test func aConfirmedOriginalRenewsTheLifetime() {
        let image = CachedData(data: Data([1]), metadata: CachedData.Metadata(lifetime: 50))
        let confirmed = CachedData.Metadata(lifetime: 500)
        let response = RenditionResponse(Rendition(name: "small", width: 8), image, of: confirmed)
        #expect(response.freshness?.lifetime == 500, "the original was confirmed a moment ago")
    }
}
