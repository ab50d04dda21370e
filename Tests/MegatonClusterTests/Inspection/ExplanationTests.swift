import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// Clauses of `megaton explain` on what the next job would do.
@Suite struct ExplanationTests {
    private static let unreachable = ImagePipeline.Error(.unreachable, "h.example could not be reached.")
    private static let missing = ImagePipeline.Error(.notFound, "h.example has no such image.", status: 404)
    private static let failing = ImagePipeline.Error(.httpStatus, "h.example answered 503.", status: 503)

    private static func next(
        freshFor: Double? = nil,
        whileRevalidating: Double? = nil,
        ifError: Double? = nil,
        etag: String? = nil,
        after error: ImagePipeline.Error?
    ) -> String {
        var item = Explanation.Item(name: "original", key: "o:00", server: "redis", next: "")
        item.entry = freshFor.map { freshFor in
            var entry = CacheListing.Entry(
                kind: .original,
                key: "o:00",
                bytes: 1,
                age: 9,
                freshFor: freshFor,
                server: "redis"
            )
            (entry.staleWhileRevalidate, entry.staleIfError, entry.etag) = (whileRevalidating, ifError, etag)
            return entry
        }
        return Explanation.Reader.next(item, after: error)
    }

    /// Fault: it said that jobs fail, although the stale entry answers them.
    @Test func aStaleEntryMayAnswerInPlaceOfAFailure() {
        let answers = "it is stale and answers jobs in place of the failure"
        for (error, code) in [(Self.unreachable, "unreachable"), (Self.failing, "http_status")] {
            let next = Self.next(freshFor: -10, ifError: 60, after: error)
            #expect(next == "\(answers) \(code) (stale-if-error)")
        }
        let revalidating = Self.next(freshFor: -10, whileRevalidating: 60, after: Self.missing)
        #expect(revalidating == "\(answers) not_found (stale-while-revalidate)")
    }

    @Test func jobsFailWithoutAnEntryThatMayAnswer() {
        let fails = "jobs fail as unreachable, without asking the origin"
        #expect(Self.next(after: Self.unreachable) == fails)
        #expect(Self.next(freshFor: -10, after: Self.unreachable) == fails)
        #expect(Self.next(freshFor: -61, ifError: 60, after: Self.unreachable) == fails, "its time is over")
        let missing = Self.next(freshFor: -10, ifError: 60, after: Self.missing)
        #expect(missing == "jobs fail as not_found, without asking the origin", "no error of the origin")
    }

    @Test func entriesAreExplainedWithoutAFailure() {
        #expect(Self.next(freshFor: 10, after: Self.unreachable) == "it is fresh and answers jobs")
        #expect(Self.next(after: nil) == "it is fetched")
        let asked = Self.next(freshFor: -10, ifError: 60, etag: "1", after: nil)
        #expect(asked == "it is stale: the origin is asked whether it is still valid")
    }
}
