import Foundation
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The thumbnails of jobs that have ended lately.
@Suite(.timeLimit(.minutes(1))) struct RecentThumbnailTests {
    private static func outcome(
        _ id: String,
        facts: String? = #"{"width":30,"height":40,"bytes":9,"format":"jpeg","orientation":6,"thumbHash":"AQID"}"#,
        status: JobOutcome.Status = .done
    ) throws -> JobOutcome {
        var outcome = JobOutcome(id: id, source: "https://user:word@h.test/\(id).jpg?sig=1", status: status)
        outcome.facts = try facts.map { try JSONDecoder().decode(SourceFacts.self, from: Data($0.utf8)) }
        return outcome
    }

    @Test func theNewestOfTheQueueAreKept() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (statistics, count) = (StatisticsRecorder(), RecentThumbnail.maximumCount + 3)
            var now = ContinuousClock.now
            for number in 1...count {
                statistics.add(thumbnailOf: try Self.outcome("\(number)"), batch: "b", at: now)
                // Too soon after the other one.
                statistics.add(thumbnailOf: try Self.outcome("late"), batch: "b", at: now + .seconds(1))
                try await statistics.flush(to: fixture.queue)
                now += .seconds(2)
            }
            let found = try await Inspector(queue: fixture.queue, caches: []).recentThumbnails()
            #expect(found.map(\.id) == (4...count).reversed().map { "\($0)" })
            let newest = try #require(found.first)
            #expect(newest.source == "https://h.test/\(count).jpg?…" && newest.batch == "b")
            #expect(newest.width == 40 && newest.height == 30, "upright")
            #expect(newest.thumbHash == "AQID")
        }
    }

    @Test func jobsWithoutAPlaceholderAreLeftOut() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let statistics = StatisticsRecorder()
            let bare = #"{"width":30,"height":40,"bytes":9,"format":"jpeg","orientation":1}"#
            for outcome in try [
                Self.outcome("a", facts: nil), Self.outcome("b", facts: bare), Self.outcome("c", status: .failed),
            ] { statistics.add(thumbnailOf: outcome, batch: "") }
            statistics.add(thumbnailOf: try Self.outcome("d"), batch: "")
            try await statistics.flush(to: fixture.queue)
            let found = try await Inspector(queue: fixture.queue, caches: []).recentThumbnails()
            #expect(found.map(\.id) == ["d"] && found.first?.batch == nil)
        }
    }

    /// Counts that were added again for it would grow with each flush.
    @Test func aKeyOfAnotherTypeDoesNotRepeatTheCounts() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let statistics = StatisticsRecorder()
            _ = try await fixture.redis.send(["SET", .string(fixture.keys.thumbnails), "another program's"])
            statistics.add("renders", 2)
            statistics.add(thumbnailOf: try Self.outcome("a"), batch: "")
            for _ in 0..<2 { try await statistics.flush(to: fixture.queue) }
            let count = try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "renders"]).int
            #expect(count == 2)
        }
    }
}
