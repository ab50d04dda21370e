import Foundation
import FoundationNetworking
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

private let etag = ["etag": "\"1\""]
private let date = ["last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"]

@Suite struct HTTPRulesTests {
    @Test(
        arguments: [
            ([:], HTTPFreshness.defaultLifetime), (["cache-control": "max-age=60"], 60),
            (["cache-control": "public, MAX-AGE=60, s-maxage=\"90\""], 90), (["cache-control": "no-store"], nil),
            (["cache-control": "private, max-age=60"], nil), (["cache-control": "no-cache"], nil),
            (["cache-control": "max-age=0"], nil), (["cache-control": "max-age=99999999999999999999"], 31_536_000),
            (["cache-control": "max-age=1e300"], nil), (["cache-control": "max-age=60, max-age=1"], 60),
            (["cache-control": "s-maxage=x, max-age=60"], nil), (["cache-control": "max-age=60", "age": "20, 1"], 40),
            (["cache-control": "private=\"set-cookie\", max-age=60"], 60),
            (["cache-control": "no-cache=\"a\", max-age=9"], 9),
            (["cache-control": "no-store, must-understand, max-age=60"], 60),
            (["cache-control": "must-understand"], 86_400),
            (["cache-control": "public, immutable"], 86_400), (["vary": "accept, *"], nil),
            (["cache-control": "max-age=60", "age": "-1e30"], 60),
            (["cache-control": "max-age=60", "age": "x, 9"], 60), (["cache-control": "max-age=60", "age": "20"], 40),
            (["cache-control": "max-age=60", "age": "80"], nil), (["vary": "*"], nil),
            (["vary": "accept"], HTTPFreshness.defaultLifetime),
        ] as [([String: String], Double?)]
    )
    func computesTheLifetimeOfAResponse(_ headers: [String: String], _ lifetime: Double?) {
        let freshness = HTTPFreshness(headers: headers)
        #expect(freshness.lifetime == lifetime)
        #expect((freshness.obstacle == nil) == (lifetime != nil))
    }

    /// Fault: nothing said why a source was fetched for each job.
    @Test(arguments: [
        (["cache-control": "max-age=60, no-store"], "forbids it (Cache-Control: no-store)"),
        (["cache-control": "private"], "forbids it (Cache-Control: private)"), (["vary": "*"], "forbids it (Vary: *"),
        (["cache-control": "max-age=0"], "it is stale at once, and has no ETag or Last-Modified"),
    ])
    func aResponseThatIsNotStoredHasAReason(_ headers: [String: String], _ reason: String) throws {
        let obstacle = try #require(HTTPFreshness(headers: headers).obstacle)
        #expect(obstacle.contains(reason), "\(obstacle)")
        let forbidden = HTTPFreshness(headers: ["cache-control": "max-age=60"], isAuthorized: true).obstacle
        #expect(forbidden?.contains("the request has a credential") == true)
    }

    /// Cache-Control with further header fields; expected lifetime, stale-while-revalidate, stale-if-error.
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
    func computesTheUsesOfAStaleResponse(
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

    // MARK: - Dates

    /// Time of receipt: 07:28:00.
    private static let now = Date(timeIntervalSince1970: 1_445_412_480)
    private static let nowText = "Wed, 21 Oct 2015 07:28:00 GMT"

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Wed Oct 21 07:28:00 2015", 1_445_412_480),
            ("Thursday, 01-Jan-70 00:00:00 GMT", 0), ("Thu, 29 Feb 2024 23:59:60 GMT", 1_709_251_199),
            ("Wednesday, 21-Oct-64 07:28:00 GMT", 2_991_799_680), ("Wednesday, 21-Oct-66 07:28:00 GMT", -100_888_320),
        ] as [(String, Double)]
    )
    func readsDatesInTheirThreeForms(_ text: String, _ seconds: Double) {
        #expect(HTTPDate.parse(text, now: Self.now)?.timeIntervalSince1970 == seconds)
    }

    @Test(arguments: [
        "", "0", "-1", "soon", "1445412480", "Wed, 21 Oct 2015 07:28:00", "Wed, 21 Oct 2015 07:28:00 UTC",
        "Wed, 21 Oct 2015 07:28:00 +0000", "wed, 21 oct 2015 07:28:00 gmt", "Wed, 1 Oct 2015 07:28:00 GMT",
        "Wed, 31 Feb 2015 07:28:00 GMT", "Wed, 29 Feb 2023 07:28:00 GMT", "Wed, 21 Oct 2015 24:00:00 GMT",
        "Wed, 21 Oct 2015 07:60:00 GMT", "Wed, 21 Oct 2015 7:28:00 GMT", "Wed, 21 Oct 15 07:28:00 GMT",
        "Wen, 21 Oct 2015 07:28:00 GMT", "Wed,  21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 GMT ",
        "Wed, 00 Oct 2015 07:28:00 GMT", "Wed, 21-Oct-15 07:28:00 GMT", "Wednesday, 21-Oct-2015 07:28:00 GMT",
        "Wed Oct 21 07:28:00 15", "Wed, 21 Oct 2015 07:28:00 GMT, Wed, 21 Oct 2015 07:28:00 GMT",
        "Wed, 21 Oct ２０15 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:-1 GMT",
    ])
    func anInvalidDateIsNone(_ text: String) {
        #expect(HTTPDate.parse(text, now: Self.now) == nil)
    }

    /// Cache-Control, Expires, Date, Last-Modified, Age, and the expected remaining lifetime.
    @Test(
        arguments: [
            (nil, "Wed, 21 Oct 2015 07:29:00 GMT", nowText, nil, nil, 60),
            (nil, "Wed, 21 Oct 2015 07:29:00 GMT", nil, nil, nil, 60),
            (nil, "Wed, 21 Oct 2015 07:29:00 GMT", "no date", nil, nil, 60),
            (nil, "Wednesday, 21-Oct-15 07:29:00 GMT", nowText, nil, "20", 40),
            // The origin's clock is ten minutes slow: the lifetime is relative to its own date, the age to the local
            // clock.
            (nil, "Wed, 21 Oct 2015 07:29:00 GMT", "Wed, 21 Oct 2015 07:18:00 GMT", nil, nil, 60),
            // The origin's clock is ten minutes fast: an age is never negative.
            (nil, "Wed, 21 Oct 2015 07:39:00 GMT", "Wed, 21 Oct 2015 07:38:00 GMT", nil, nil, 60),
            ("max-age=5", "Wed, 21 Oct 2015 07:29:00 GMT", nowText, nil, nil, 5),
            ("s-maxage=7, max-age=5", "0", nowText, nil, nil, 7), ("public", "0", nowText, nil, nil, nil),
            (nil, "0", nil, nil, nil, nil), (nil, "", nil, nil, nil, nil), (nil, "-1", nil, nowText, nil, 0),
            (nil, nowText, nowText, nil, nil, nil),
            (nil, "Wed, 21 Oct 2099 07:28:00 GMT", nowText, nil, nil, 31_536_000),
            // The greater one of the apparent age (section 4.2.3) and the `Age` reported by caches on the way.
            ("max-age=60", nil, "Wed, 21 Oct 2015 07:27:30 GMT", nil, nil, 30),
            ("max-age=60", nil, "Wed, 21 Oct 2015 07:27:30 GMT", nil, "40", 20),
            ("max-age=60", nil, "Wed, 21 Oct 2015 07:27:30 GMT", nil, "10", 30),
            // Heuristic freshness: a tenth of the time since the last change, limited (section 4.2.2).
            (nil, nil, nowText, "Wed, 21 Oct 2015 07:11:20 GMT", nil, 100),
            (nil, nil, nil, "Wed, 21 Oct 2015 07:11:20 GMT", "30", 70),
            (nil, nil, nowText, "Wed, 21 Oct 2005 07:28:00 GMT", nil, 604_800), (nil, nil, nowText, nowText, nil, 0),
            (nil, nil, nowText, "Wed, 21 Oct 2020 07:28:00 GMT", nil, 0), (nil, nil, nowText, "x", nil, 86_400),
            ("max-age=9", nil, nowText, "Wed, 21 Oct 2005 07:28:00 GMT", nil, 9),
            ("must-revalidate", nil, nowText, "Wed, 21 Oct 2015 07:11:20 GMT", nil, 100),
            ("no-cache", nil, nowText, "Wed, 21 Oct 2015 07:11:20 GMT", nil, 0),
        ] as [(String?, String?, String?, String?, String?, Double?)]
    )
    func computesTheLifetimeOfAResponseByDates(
        _ control: String?,
        _ expires: String?,
        _ date: String?,
        _ modified: String?,
        _ age: String?,
        _ lifetime: Double?
    ) {
        var headers = ["cache-control": control, "expires": expires, "date": date].compactMapValues { $0 }
        headers["last-modified"] = modified
        headers["age"] = age
        #expect(HTTPFreshness(headers: headers, received: Self.now).lifetime == lifetime)
    }

    /// Section 4.2.3: the time a response took adds to its `Age`.
    @Test func theTimeOnTheWayCounts() {
        let freshness = HTTPFreshness(
            headers: ["cache-control": "max-age=60", "age": "10"],
            requested: Self.now.addingTimeInterval(-5),
            received: Self.now
        )
        #expect(freshness.age == 15 && freshness.lifetime == 45)
    }

    @Test(arguments: [201, 204, 206, 300, 301, 304, 404, 410, 500])
    func onlyWholeImagesAreStored(_ status: Int) {
        #expect(HTTPFreshness(headers: ["cache-control": "public, max-age=60"], status: status).lifetime == nil)
        #expect(HTTPFreshness(headers: ["cache-control": "must-understand, no-store"], status: status).lifetime == nil)
        for status in HTTPFreshness.keptStatuses {
            #expect(HTTPFreshness(headers: [:], status: status).lifetime != nil)
        }
    }

    /// RFC 9111 section 3.5.
    @Test(
        arguments: [
            ("", false), ("max-age=60", false), ("max-age=60, proxy-revalidate", false), ("public", true),
            ("s-maxage=60", true), ("max-age=60, must-revalidate", true), ("public, private", false),
            ("public, no-store", false),
        ]
    )
    func aResponseToCredentialsIsNotStoredForOtherRequests(_ control: String, _ isKept: Bool) {
        let headers = ["cache-control": control]
        #expect((HTTPFreshness(headers: headers, isAuthorized: true).lifetime != nil) == isKept)
        let metadata = CachedData.Metadata(headers: headers, request: ["authorization": "Bearer x"])
        #expect((metadata != nil) == isKept)
    }

    /// Sections 5.2.2.4 and 5.2.2.7: fields that are private are not stored; those that need revalidation are not
    /// reused.
    @Test func fieldsAreLeftOut() throws {
        let headers = [
            "cache-control": "max-age=60, private=\"ETag, content-language\", no-cache=\"last-modified, content-type\"",
            "etag": "\"1\"", "last-modified": Self.nowText, "content-type": "image/png", "content-language": "en",
            "set-cookie": "a",
        ]
        let metadata = try #require(CachedData.Metadata(headers: headers))
        #expect(metadata.etag == nil && metadata.type == nil && metadata.lastModified == Self.nowText)
        #expect(metadata.headers?.keys.sorted() == ["cache-control"])
    }

    @Test func aHitHasItsAnswer() throws {
        let headers = [
            "cache-control": "max-age=60", "etag": "\"1\"", "content-type": "image/png", "content-language": "en",
            "age": "5", "set-cookie": "a", "connection": "close",
        ]
        var metadata = try #require(CachedData.Metadata(headers: headers, status: 203))
        metadata.stored = 1000
        let url = try #require(URL(string: "https://h/a"))
        let entry = CachedData(data: Data([1, 2, 3]), metadata: metadata)
        let response = try #require(entry.response(for: url, at: Date(timeIntervalSince1970: 1010)))
        #expect(response.statusCode == 203 && response.url == url && response.expectedContentLength == 3)
        #expect(
            response.lowercasedHeaders == [
                "cache-control": "max-age=60", "etag": "\"1\"", "content-type": "image/png", "content-language": "en",
                "age": "15", "content-length": "3",
            ]
        )
    }

    @Test func longHeadersAreNotKept() throws {
        let control = "max-age=60, x=\"" + String(repeating: "y", count: 4096) + "\""
        let stored = try #require(CachedData.Metadata(headers: ["cache-control": control, "etag": "\"1\""]))
        #expect(stored.headers == nil && stored.lifetime == 60)
        #expect(stored.refreshed(by: [:])?.lifetime == 60, "its outcome is still known")
    }

    // MARK: - Revalidation

    /// RFC 9111 section 4.3.4: fields of the 304 replace stored ones, and the rest stays.
    @Test func aRevalidatedEntryIsFreshByAllThatWasSaid() throws {
        let first = ["cache-control": "max-age=60", "etag": "\"1\"", "date": "Wed, 21 Oct 2015 07:28:00 GMT"]
        let stored = try #require(CachedData.Metadata(headers: first, received: Self.now))
        let later = Self.now.addingTimeInterval(3600)
        #expect(stored.refreshed(by: [:], received: later)?.lifetime == 60, "the old date is not that of the 304")
        #expect(stored.refreshed(by: ["age": "20"], received: later)?.lifetime == 40)
        #expect(stored.refreshed(by: ["date": "Wed, 21 Oct 2015 08:27:50 GMT"], received: later)?.lifetime == 50)
        let expires = ["expires": "Wed, 21 Oct 2015 09:28:00 GMT", "date": "Wed, 21 Oct 2015 08:28:00 GMT"]
        #expect(stored.refreshed(by: expires, received: later)?.lifetime == 60, "max-age goes before Expires")
        let byDate = try #require(
            CachedData.Metadata(
                headers: ["expires": "Wed, 21 Oct 2015 07:29:00 GMT", "etag": "\"1\""],
                received: Self.now
            )
        )
        #expect(byDate.lifetime == 60)
        #expect(byDate.refreshed(by: [:], received: later)?.lifetime == 0, "its end does not move by itself")
        #expect(byDate.refreshed(by: expires, received: later)?.lifetime == 3600)
    }

    /// RFC 9111 section 4.3.4: a 304 with another validator does not confirm the entry.
    @Test func aRevalidationMustBeAboutTheEntry() throws {
        let stored = try #require(CachedData.Metadata(headers: ["etag": "\"1\""]))
        for tag in ["\"1\"", "W/\"1\"", ""] { #expect(stored.isConfirmed(by: ["etag": tag])) }
        #expect(stored.isConfirmed(by: [:]))
        #expect(!stored.isConfirmed(by: ["etag": "\"2\""]) && !stored.isConfirmed(by: ["etag": "W/\"2\""]))
        #expect(stored.refreshed(by: ["etag": "\"2\""]) == nil)
        let dated = try #require(CachedData.Metadata(headers: ["last-modified": Self.nowText]))
        #expect(dated.isConfirmed(by: ["etag": "\"2\""]))
    }

    @Test func aRevalidatedEntryIsKeptByTheRulesForItsAsker() throws {
        let stored = try #require(CachedData.Metadata(headers: ["cache-control": "public", "etag": "\"1\""]))
        #expect(stored.refreshed(by: [:], request: ["Authorization": "x"]) != nil)
        #expect(stored.refreshed(by: ["cache-control": "max-age=1"], request: ["Authorization": "x"]) == nil)
        #expect(stored.refreshed(by: ["cache-control": "private"]) == nil)
    }

    /// A rendition made from a cached original inherits the original's age.
    @Test func aRenditionIsAsOldAsItsOriginal() throws {
        var original = try #require(CachedData.Metadata(headers: ["cache-control": "max-age=60", "age": "5"]))
        original.stored = 1000
        let image = EncodedImage(data: Data([1]), size: PixelSize(width: 1, height: 1))
        let made = CachedData(
            image,
            Rendition(name: "x", format: .png),
            of: original,
            at: Date(timeIntervalSince1970: 1020)
        )
        #expect(made.metadata.age == 25 && made.metadata.stored == nil && made.metadata.type == "image/png")
        let prolonged = made.prolonged(by: original, at: Date(timeIntervalSince1970: 1030))
        #expect(prolonged.metadata.age == 35 && prolonged.metadata.width == 1)
    }

    @Test func timeUntilTheStorageIsTakenOffTheLifetime() throws {
        let headers = ["cache-control": "max-age=60, stale-while-revalidate=30, stale-if-error=90", "age": "5"]
        let response = try #require(CachedData.Metadata(headers: headers))
        let fresh = response.elapsed(15)
        #expect(fresh.lifetime == 40 && fresh.age == 20 && fresh.staleWhileRevalidate == 30)
        let stale = response.elapsed(75)
        #expect(stale.lifetime == 0 && stale.age == 80 && stale.staleWhileRevalidate == 10 && stale.staleIfError == 70)
        #expect(response.elapsed(1000).staleIfError == 0)
        #expect(response.elapsed(0) == response && response.elapsed(-5) == response, "a clock may be set back")
        var stored = response
        stored.stored = 1000
        #expect(stored.elapsed(15).age == 5, "its age follows from that time")
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
        #expect(stored.refreshed(by: ["etag": "W/\"1\""])?.etag == "W/\"1\"")
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
        // Fault: as soon as the circuit breaker was open, a stale entry was no longer served.
        for isOpen in [nil, true] {
            var refused = ImagePipeline.Error(.throttled, "")
            refused.hostTurn = HostTurn(host: "h:443", wait: 1, interval: 0, isOpen: isOpen)
            #expect(refused.isOriginFailure == (isOpen == true), "a limit on the rate is no failure")
        }
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
    func mapsEachStatusToAnError(_ status: Int, _ code: ImagePipeline.Error.Code, _ isRetryable: Bool) {
        let error = HTTPStatusError.error(status: status, headers: [:], url: "http://h/")
        #expect(error.code == code && error.isRetryable == isRetryable)
    }

    @Test func readsRetryAfterInBothForms() {
        let now = Date(timeIntervalSince1970: 1_445_412_400)
        #expect(HTTPStatusError.retryAfter("30", now: now) == 30)
        #expect(HTTPStatusError.retryAfter("-5", now: now) == 0)
        #expect(HTTPStatusError.retryAfter("99999999", now: now) == 31_536_000)
        #expect(HTTPStatusError.retryAfter("Wed, 21 Oct 2015 07:28:00 GMT", now: now) == 80)
        for text in ["soon", "inf", "Infinity", "nan", ""] {
            #expect(HTTPStatusError.retryAfter(text, now: now) == nil, "\(text)")
        }
    }

    @Test func readsDataURLs() throws {
        #expect(try DataURL.decode(URL(string: "data:,a%20b")!) == Data("a b".utf8))
        #expect(try DataURL.decode(URL(string: "data:image/png;base64,AAEC")!) == Data([0, 1, 2]))
        let spaced = try #require(URL(string: "data:;BASE64,AA%20%0AE%43"))
        #expect(try DataURL.decode(spaced) == Data([0, 1, 2]), "white space is left out")
        for bad in ["data:image/png;base64", "data:;base64,%%%", "data:;base64,AA-_", "data:,%FF"] {
            guard let url = URL(string: bad) else { continue }
            #expect(throws: ImagePipeline.Error.self) { try DataURL.decode(url) }
        }
    }
}
