import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Outcomes are read and written by hand as Foundation reads and writes them.
struct JobOutcomeJSONTests {
    /// An outcome in which each field has a value.
    private static func whole() throws -> JobOutcome {
        var outcome = JobOutcome(id: "a.1", source: "https://example.org/größe/\"a\".jpg", status: .done)
        outcome.outputs = [
            JobOutcome.Output(
                name: "small",
                path: "/out/a \\ b.webp",
                width: 256,
                height: 171,
                format: .webp,
                bytes: 12_345,
                sha256: String(repeating: "0a", count: 32),
                from: .cache,
                score: 71.25,
                cacheKey: String(repeating: "0b", count: 32),
                options: "0123456789abcdef"
            ),
            JobOutcome.Output(name: "b", width: 1, height: 2, format: .jpeg, bytes: 3, sha256: "", from: .render),
        ]
        outcome.error = JobOutcome.Failure(code: "timed_out", message: "No answer.", retryable: true)
        (outcome.attempts, outcome.seconds, outcome.endedAt) = (2, 0.0125, 1_795_338_000.123)
        var stages = StageTimes()
        (stages.fetching, stages.rendering, stages.storing) = (.milliseconds(5), .microseconds(1234), .zero)
        outcome.times = JobOutcome.Times(seconds: 0.0125, stages)
        outcome.notes = ["the image is damaged", ""]
        outcome.facts = try JSONDecoder().decode(
            SourceFacts.self,
            from: Data(
                #"""
                {"width":4000,"height":3000,"bytes":5000000,"format":"jpeg","orientation":6,"frames":3,"animated":true,
                "hasAlpha":true,"c2pa":true,"gainMap":true,"thumbHash":"AQIDBA==","dominantColor":"#102030"}
                """#.utf8
            )
        )
        outcome.worker = "h:1:a"
        outcome.labels = ["shop": .text("a, \"b\""), "stock": .integer(-3), "new": .bool(true)]
        var job = Job(id: "j", source: "https://example.org/a.jpg", renditions: [Rendition(name: "s", width: 64)])
        (job.batch, job.labels, job.output) = ("b", outcome.labels, "file:///out/{stem}.{ext}")
        outcome.job = job
        return outcome
    }

    private static func decoded(_ json: Data) -> JobOutcome? { try? JSONDecoder().decode(JobOutcome.self, from: json) }

    @Test func eachFieldIsReadAndWritten() throws {
        let outcome = try Self.whole()
        // The computed facts of few are the decoder's part.
        #expect(!Mirror(reflecting: outcome).children.contains { "\($0.value)" == "nil" })
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        #expect(JobOutcome(plainJSON: outcome.json()) == outcome && Self.decoded(outcome.json()) == outcome)
        let bare = JobOutcome(source: "a", status: .cancelled)
        #expect(bare.plainJSON == WireJSON.data(bare) && JobOutcome(plainJSON: bare.json()) == bare)
    }

    /// The job that few have, and one that no version accepts, are the decoder's part.
    @Test func aJobWithOtherFieldsIsReadByTheDecoder() throws {
        var outcome = try Self.whole()
        outcome.job?.source = "a\u{1}"
        #expect(outcome.json() == WireJSON.data(outcome) && JobOutcome(plainJSON: outcome.json()) == nil)
        #expect(try JobOutcome(json: outcome.json()) == outcome)
        outcome.job?.attempts = 1000
        #expect(JobOutcome(plainJSON: outcome.json()) == nil && Self.decoded(outcome.json()) == nil)
    }

    @Test func factsThatFewAskForAreReadByTheDecoder() throws {
        var outcome = try Self.whole()
        outcome.facts?.perceptualHash = 0x0102_0304_0506_0708
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        #expect(try JobOutcome(json: outcome.json()) == outcome)
        let exif = Data(#"{"date":"2026-05-01","make":"A"}"#.utf8)
        outcome.facts?.exif = try JSONDecoder().decode(SourceFacts.EXIF.self, from: exif)
        #expect(try JobOutcome(json: outcome.json()) == outcome)
    }

    /// Each field removed, null, and of another kind.
    @Test(arguments: [nil, "null", "7", "-1.5", "\"x\"", "true", "[]", "{}", "[1]", "{\"a\":1}"] as [String?])
    func aFieldOfAnotherKindIsReadAsTheDecoderReadsIt(_ value: String?) throws {
        let json = try #require(try Self.whole().plainJSON)
        let whole = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
        for name in whole.keys.sorted() + ["unknown"] {
            var fields = whole
            fields[name] = try value.map {
                try JSONSerialization.jsonObject(with: Data($0.utf8), options: .fragmentsAllowed)
            }
            let changed = try JSONSerialization.data(withJSONObject: fields)
            if let read = JobOutcome(plainJSON: changed) { #expect(read == Self.decoded(changed), "\(name)") }
            #expect((try? JobOutcome(json: changed)) == Self.decoded(changed), "\(name)")
        }
    }

    /// With bytes changed, removed and inserted: if the fast reader reads an outcome, the decoder reads the same.
    @Test func damagedOutcomesAreReadAsTheDecoderReadsThemOrNotAtAll() throws {
        let read = TextDamage.count(of: try Self.whole().json()) { json in
            guard let outcome = JobOutcome(plainJSON: json) else { return false }
            #expect(outcome == Self.decoded(json), "\(String(decoding: json, as: UTF8.self))")
            return true
        }
        #expect(read > 1000)
    }
}
