import Foundation
import Testing

@testable import MegatonPipeline

private let etag = ["etag": "\"1\""]
private let date = ["last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"]

@Suite struct HTTPRulesTests {
    @Test(
        arguments: [
            ([:], HTTPFreshness.defaultLifetime), (["cache-control": "max-age=60"], 60),
            (["cache-control": "public, MAX-AGE=60, s-maxage=\"90\""], 90), (["cache-control": "no-store"], nil),
            (["cache-control": "private, max-age=60"], nil), (["cache-control": "no-cache"], nil),
            (["cache-control": "max-age=0"], nil), (["cache-control": "max-age=99999999999999999999"], 31_536_000),
            (["cache-control": "max-age=1e300"], HTTPFreshness.defaultLifetime),
            (["cache-control": "max-age=60", "age": "-1e30"], 60), (["cache-control": "max-age=60", "age": "20"], 40),
            (["cache-control": "max-age=60", "age": "80"], nil), (["vary": "*"], nil),
            (["vary": "accept"], HTTPFreshness.defaultLifetime),
        ] as [([String: String], Double?)]
    )
    func tellsHowLongAnAnswerIsFresh(_ headers: [String: String], _ lifetime: Double?) {
        #expect(HTTPFreshness(headers: headers).lifetime == lifetime)
    }

    /// Cache-Control with further header fields, and: lifetime, stale-while-revalidate, stale-if-error.
    @Test(
        arguments: [
            ("no-cache", etag, 0, nil, nil), ("no-cache", date, 0, nil, nil), ("max-age=0", etag, 0, nil, nil),
            ("no-cache", ["etag": ""], nil, nil, nil), ("no-cache, no-store", etag, nil, nil, nil),
            ("max-age=60", ["etag": "1", "age": "80"], 0, nil, nil),
            ("max-age=60, stale-while-revalidate=30", [:], 60, 30, nil),
            ("max-age=60, stale-if-error=\"90\"", [:], 60, nil, 90),
            ("max-age=0, Stale-While-Revalidate=30, stale-if-error=90", [:], 0, 30, 90),
            ("max-age=60, stale-while-revalidate=30, stale-if-error=90", ["age": "80"], 0, 10, 70),
            ("max-age=60, stale-while-revalidate=30", ["age": "90"], nil, nil, nil),
            ("max-age=60, must-revalidate, stale-while-revalidate=30, stale-if-error=90", etag, 60, nil, nil),
            ("max-age=60, proxy-revalidate, stale-if-error=90", [:], 60, nil, nil),
            ("no-cache, stale-while-revalidate=30", etag, 0, nil, nil),
            ("no-cache, stale-while-revalidate=30", [:], nil, nil, nil),
            ("s-maxage=60, stale-while-revalidate=30", [:], 60, 30, nil),
            ("max-age=60, stale-while-revalidate=-1, stale-if-error=soon", [:], 60, nil, nil),
            ("private, max-age=60, stale-if-error=90", etag, nil, nil, nil),
        ] as [(String, [String: String], Double?, Double?, Double?)]
    )
    func tellsHowAStaleAnswerMayBeUsed(
        _ control: String,
        _ others: [String: String],
        _ lifetime: Double?,
        _ whileRevalidating: Double?,
        _ ifError: Double?
    ) {
        let freshness = HTTPFreshness(headers: others.merging(["cache-control": control]) { $1 })
        #expect(freshness.lifetime == lifetime)
        #expect(freshness.staleWhileRevalidate == whileRevalidating)
        #expect(freshness.staleIfError == ifError)
    }

    @Test func aRevalidatedEntryHasTheNewHeaders() throws {
        let first = [
            "cache-control": "max-age=60, stale-if-error=9", "etag": "\"1\"", "content-type": "image/png",
        ]
        let stored = try #require(CachedData.Metadata(headers: first))
        #expect(stored.refreshed(by: [:]) == stored, "what a 304 leaves out has not changed")
        let changed = try #require(stored.refreshed(by: ["cache-control": "max-age=7", "content-type": "text/html"]))
        #expect(changed.lifetime == 7 && changed.staleIfError == nil)
        #expect(changed.etag == "\"1\"" && changed.type == "image/png")
        #expect(stored.refreshed(by: ["etag": "W/\"2\""])?.etag == "W/\"2\"")
        #expect(stored.refreshed(by: ["cache-control": "no-store"]) == nil)
    }

    @Test func onlyAFailureOfTheOriginLetsWhatIsStaleBeServed() {
        for status in [500, 502, 503, 504] {
            #expect(HTTPStatusError.error(status: status, headers: [:], url: "http://h/").isOriginFailure)
        }
        for status in [304, 400, 401, 404, 410, 429] {
            #expect(!HTTPStatusError.error(status: status, headers: [:], url: "http://h/").isOriginFailure)
        }
        #expect(ImagePipeline.Error(.timedOut, "").isOriginFailure)
        #expect(!ImagePipeline.Error(.cancelled, "").isOriginFailure)
    }

    @Test func entriesOfBeforeCanStillBeRead() throws {
        let json = Data(#"{"etag":"\"1\"","lifetime":60}"#.utf8)
        let metadata = try JSONDecoder().decode(CachedData.Metadata.self, from: json)
        #expect(metadata.lifetime == 60 && metadata.staleIfError == nil)
    }

    @Test(arguments: [
        (404, ImagePipeline.Error.Code.notFound, false), (410, .notFound, false), (401, .accessDenied, false),
        (403, .accessDenied, false), (400, .httpStatus, false), (408, .httpStatus, true), (425, .httpStatus, true),
        (429, .httpStatus, true), (500, .httpStatus, true), (503, .httpStatus, true), (304, .httpStatus, false),
    ])
    func tellsWhatAStatusMeans(_ status: Int, _ code: ImagePipeline.Error.Code, _ isRetryable: Bool) {
        let error = HTTPStatusError.error(status: status, headers: [:], url: "http://h/")
        #expect(error.code == code && error.isRetryable == isRetryable)
    }

    @Test func readsRetryAfterInBothForms() {
        let now = Date(timeIntervalSince1970: 1_445_412_400)
        #expect(HTTPStatusError.retryAfter("30", now: now) == 30)
        #expect(HTTPStatusError.retryAfter("-5", now: now) == 0)
        #expect(HTTPStatusError.retryAfter("99999999", now: now) == 86_400)
        #expect(HTTPStatusError.retryAfter("Wed, 21 Oct 2015 07:28:00 GMT", now: now) == 80)
        #expect(HTTPStatusError.retryAfter("soon", now: now) == nil)
    }

    @Test func readsDataURLs() throws {
        #expect(try DataURL.decode(URL(string: "data:,a%20b")!) == Data("a b".utf8))
        #expect(try DataURL.decode(URL(string: "data:image/png;base64,AAEC")!) == Data([0, 1, 2]))
        for bad in ["data:image/png;base64", "data:;base64,%%%"] {
            guard let url = URL(string: bad) else { continue }
            #expect(throws: ImagePipeline.Error.self) { try DataURL.decode(url) }
        }
    }
}
