import Foundation
import Testing

@testable import MegatonPipeline

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
    }

    @Test func clientsMayHaveAShorterLifetime() {
        #expect(freshness("max-age=60")?.clientLifetime == nil)
        #expect(freshness("s-maxage=600, max-age=60")?.clientLifetime == 60)
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
