import Foundation
import MegatonPipeline
import NIOCore
import Testing

@testable import MegatonCluster

/// Time spent in each stage of an attempt, and notes about its outputs.
struct OutcomeTimesTests {
    private func stages(_ fetching: Duration, _ rendering: Duration, _ storing: Duration) -> StageTimes {
        var stages = StageTimes()
        (stages.fetching, stages.rendering, stages.storing) = (fetching, rendering, storing)
        return stages
    }

    @Test func theRestOfAnAttemptIsWaiting() {
        let times = JobOutcome.Times(seconds: 10, stages(.seconds(2), .milliseconds(500), .milliseconds(250)))
        #expect((times.fetching, times.rendering, times.storing) == (2, 0.5, 0.25))
        #expect(times.waiting == 7.25)
    }

    /// The stage times of renditions that run in parallel may add up to more than the attempt's duration.
    @Test func thePartsAreNeverMoreThanTheWhole() {
        let times = JobOutcome.Times(seconds: 1, stages(.milliseconds(750), .seconds(3), .seconds(1)))
        #expect((times.fetching, times.rendering, times.storing, times.waiting) == (0.75, 0.25, 0, 0))
    }

    @Test func aLineHasThem() throws {
        var outcome = JobOutcome(id: "a", source: "s", status: .done, seconds: 1, worker: "w")
        outcome.times = JobOutcome.Times(seconds: 1, stages(.milliseconds(250), .zero, .zero))
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        let line = String(decoding: outcome.json(), as: UTF8.self)
        #expect(line.contains(#""times":{"fetching":0.25,"rendering":0,"storing":0,"waiting":0.75}"#), "\(line)")
        outcome.notes = ["the color profile does not fit", "\"b\""]
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        let read = try JSONDecoder().decode(JobOutcome.self, from: outcome.json())
        #expect(read == outcome)
    }

    @Test func remarksAreBounded() {
        let metrics = PipelineMetrics()
        metrics.add(notes: ["a", "a", String(repeating: "b", count: 1000)])
        metrics.add(notes: (0..<100).map(String.init))
        #expect(metrics.notes.count == RenderNotes.maximumCount)
        #expect(metrics.notes.prefix(2) == ["a", String(repeating: "b", count: RenderNotes.maximumLength)][...])
    }

    @Test func remarksComeBackFromACache() throws {
        var metadata = CachedData.Metadata(lifetime: 60)
        metadata.notes = ["the data ends early"]
        let header = CacheEntry.Header(length: 5, checksum: "ab", metadata: metadata)
        let entry = CacheEntry.Header(json: ByteBuffer(bytes: try #require(header.plainJSON)))
        #expect(entry?.metadata.notes == metadata.notes)
    }
}
