import Foundation
import MegatonPipeline
import NIOCore
import Testing

@testable import MegatonCluster

/// Facts about the source in jobs and in outcomes.
struct OutcomeFactsTests {
    private static let plain =
        ##""bytes":99,"dominantColor":"#0180ff","format":"gif","hasAlpha":true,"height":30,"orientation":1,"##
        + #""thumbHash":"AAECAw==","width":40"#
    private static let full =
        ##""animated":true,"bytes":99,"c2pa":true,"dominantColor":"#0180ff","exif":{"date":"2026-05-01T12:30:59","##
        + #""make":"A \"b\"","model":"C"},"format":"gif","frames":3,"gainMap":true,"hasAlpha":false,"height":30,"#
        + #""orientation":8,"phash":"0123456789abcdef","thumbHash":"AAECAw==","width":40"#

    @Test(arguments: [plain, full])
    func aLineHasThem(_ fields: String) throws {
        var outcome = JobOutcome(id: "a", source: "s", status: .done, seconds: 1, worker: "w")
        outcome.facts = try JSONDecoder().decode(SourceFacts.self, from: Data("{\(fields)}".utf8))
        let line = String(decoding: outcome.json(), as: UTF8.self)
        #expect(line.contains("\"facts\":{\(fields)}"), "\(line)")
        #expect(outcome.plainJSON == WireJSON.data(outcome))
        #expect(try JSONDecoder().decode(JobOutcome.self, from: outcome.json()) == outcome)
    }

    @Test func aLineOfAnEarlierVersionHasNone() throws {
        let line = #"{"attempts":1,"id":"a","outputs":[],"seconds":1,"source":"s","status":"done"}"#
        #expect(try JSONDecoder().decode(JobOutcome.self, from: Data(line.utf8)).facts == nil)
    }

    @Test func theHeaderOfAnEntryKeepsThem() throws {
        var metadata = CachedData.Metadata(lifetime: 60)
        metadata.facts = "AQAQ"
        let header = CacheEntry.Header(length: 5, checksum: "ab", metadata: metadata)
        let read = CacheEntry.Header(json: ByteBuffer(bytes: try #require(header.plainJSON)))
        #expect(read?.metadata.facts == metadata.facts)
    }

    // MARK: - Jobs

    @Test(arguments: [
        (#"["exif","phash"]"#, [Job.OptionalFact.exif, .phash]), (#"["phash"]"#, [.phash]), ("[]", []),
    ])
    func aJobNamesItsFacts(_ json: String, _ expected: [Job.OptionalFact]) throws {
        let text = Data("{\"facts\":\(json),\"source\":\"https://example.org/a.jpg\"}".utf8)
        #expect(Job(plainJSON: text)?.facts == expected)
        #expect(try JSONDecoder().decode(Job.self, from: text).facts == expected)
        #expect(try Job(json: Job(json: text).json()).facts == expected)
    }

    @Test func aJobThatNamesNoneIsAsBefore() throws {
        let job = try Job(json: Data(#"{"source":"https://example.org/a.jpg"}"#.utf8))
        #expect(job.facts == nil && !String(decoding: job.json(), as: UTF8.self).contains("facts"))
    }

    @Test(arguments: [#"["gps"]"#, #""exif""#, "true"])
    func otherFactsAreRefused(_ json: String) {
        let text = Data("{\"facts\":\(json),\"source\":\"https://example.org/a.jpg\"}".utf8)
        let error = #expect(throws: JobError.self) { try Job(json: text) }
        #expect(error?.message.contains("facts") == true && error?.message.contains("phash") == true)
    }
}
