import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Facts about the source come with renditions, made and cached.
@Suite(.timeLimit(.minutes(2))) struct RenditionFactsTests {
    private let small = Rendition(width: 32, height: 32, format: .png)

    @Test func aCachedRenditionHasTheFactsOfItsRender() async throws {
        let image = TestImage.quarters(width: 96, height: 48)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"))
            let made = try await probe.pipeline.renditions([small], for: request)[0]
            let found = try await probe.pipeline.renditions([small], for: request)[0]
            #expect((made.source, found.source) == (.render, .cache))
            let facts = try #require(made.facts)
            #expect(found.facts == facts)
            #expect((facts.width, facts.height, facts.bytes) == (96, 48, image.count) && facts.format == "png")
            #expect(facts.thumbHash != nil && facts.dominantColor != nil && facts.perceptualHash != nil)
        }
    }

    /// An entry of an earlier version has no facts, and a revalidated one keeps those it has.
    @Test func entriesKeepWhatTheyHave() {
        var metadata = CachedData.Metadata(type: "image/png", width: 32, height: 16, lifetime: 60)
        #expect(RenditionResponse(small, CachedData(data: Data([1]), metadata: metadata)).facts == nil)
        metadata.facts = "AQA"
        #expect(RenditionResponse(small, CachedData(data: Data([1]), metadata: metadata)).facts == nil, "damaged")
        let prolonged = CachedData(data: Data([1]), metadata: metadata).prolonged(by: CachedData.Metadata(lifetime: 9))
        #expect(prolonged.metadata.facts == metadata.facts)
    }
}
