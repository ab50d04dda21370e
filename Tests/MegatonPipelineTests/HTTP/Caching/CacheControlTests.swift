import Foundation
import FoundationNetworking
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite struct CacheControlTests {
    // MARK: - Directives

    @Test(
        arguments: [
            ("max-age=60", .value(60)), ("MAX-AGE=60", .value(60)), ("max-age=\"60\"", .value(60)),
            ("a=\"x, max-age=1\", max-age=60", .value(60)), ("max-age=60, max-age=5", .value(60)),
            ("max-age=0060", .value(60)), (" , ,max-age=60,", .value(60)), ("max-age=\"6\\0\"", .value(60)),
            ("a=\"\\\", max-age=1\", max-age=60", .value(60)), ("max-age=99999999999999999999", .value(31_536_000)),
            ("", .absent), ("x-max-age=60", .absent), ("a=\"max-age=60\"", .absent), ("max-age", .invalid),
            ("max-age=", .invalid), ("max-age=-1", .invalid), ("max-age=1.5", .invalid), ("max-age=1e9", .invalid),
            ("max-age= 60", .invalid), ("max-age =60", .invalid), ("max-age=60s", .invalid), ("max-age='60'", .invalid),
            ("max-age=\"60", .invalid), ("max-age=, max-age=60", .invalid), ("max-age=６０", .invalid),
        ] as [(String, CacheControl.Seconds)]
    )
    func readsSeconds(_ value: String, _ seconds: CacheControl.Seconds) {
        #expect(CacheControl(value).seconds("max-age") == seconds)
    }

    @Test(
        arguments: [
            ("", .nothing), ("x-private", .nothing), ("private", .everything), ("Private", .everything),
            ("private=\"Set-Cookie\"", .fields(["set-cookie"])),
            ("private=\"a, B\" , max-age=1", .fields(["a", "b"])), ("private=a", .fields(["a"])),
            ("private=\"a\", private=\"b\"", .fields(["a", "b"])), ("private=\"a\", private", .everything),
            ("private=", .everything), ("private=\"\"", .everything), ("private=\"a b\"", .everything),
            ("private=\"a", .everything), ("private=\"(\"", .everything),
        ] as [(String, CacheControl.Scope)]
    )
    func readsTheFieldsOfADirective(_ value: String, _ scope: CacheControl.Scope) {
        #expect(CacheControl(value).scope("private") == scope)
    }

    /// A quote that is never closed, or a comma in a quoted string, neither hides a directive nor adds one.
    @Test func aQuoteHidesNothing() {
        #expect(CacheControl("a=\"b, no-store").contains("no-store"))
        #expect(CacheControl("a=\"b\\\", no-store").contains("no-store"))
        #expect(!CacheControl("a=\"no-store\"").contains("no-store"))
        #expect(!CacheControl("a=\"x, no-store, y\"").contains("no-store"))
        #expect(CacheControl(nil) == CacheControl(""))
    }

    /// Any header value is parsed, quickly, and with a sensible result.
    @Test func readsAnything() {
        var state: UInt64 = 4
        func random(_ count: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % count
        }
        let pieces = [
            "max-age", "s-maxage", "no-cache", "private", "=", "=", ",", ", ", "\"", "\"", "\\", "60", "-1", "1e9", " ",
            "ä", "\u{301}", "\0", "GMT", ":", "Wed, 21 Oct 2015 07:28:00 GMT", "*", "stale-if-error", "no-store",
        ]
        func text() -> String { (0..<random(12)).map { _ in pieces[random(pieces.count)] }.joined() }
        for _ in 0..<5000 {
            let names = ["cache-control", "age", "date", "expires", "last-modified", "vary", "etag"]
            let headers = Dictionary(uniqueKeysWithValues: names.map { ($0, text()) })
            let freshness = HTTPFreshness(headers: headers)
            for seconds in [freshness.lifetime, freshness.staleIfError, freshness.staleWhileRevalidate, freshness.age] {
                #expect((0...Double.greatestFiniteMagnitude).contains(seconds ?? 0))
            }
            #expect((freshness.lifetime ?? 0) <= 31_536_000)
            if let metadata = CachedData.Metadata(headers: headers, request: [text(): text()]) {
                #expect((try? JSONEncoder().encode(metadata)) != nil)
                _ = metadata.refreshed(by: headers)
            }
            _ = ContentRange(text())
        }
        let long = String(repeating: "\"\\", count: 32 * 1024)
        #expect(CacheControl(long + ", no-store").contains("no-store"))
    }

    // MARK: - Requests

    private func request(
        _ control: String? = nil,
        _ policy: URLRequest.CachePolicy = .useProtocolCachePolicy
    ) -> RequestCachePolicy {
        var request = URLRequest(url: URL(string: "https://h/a")!, cachePolicy: policy)
        if let control { request.setValue(control, forHTTPHeaderField: "Cache-Control") }
        return RequestCachePolicy(request)
    }

    private let now = Date(timeIntervalSince1970: 1_000_000)

    /// An entry that was stored a minute ago at an age of ten seconds, and has a hundred seconds left.
    private func entry(_ control: String = "max-age=170", staleness: Double? = nil) -> CachedData {
        var metadata = CachedData.Metadata(
            stored: now.timeIntervalSince1970 - 60,
            lifetime: 100,
            staleWhileRevalidate: 50
        )
        metadata.age = 10
        metadata.headers = ["cache-control": control]
        return CachedData(data: Data(), metadata: metadata, staleness: staleness)
    }

    /// The verdict for each `URLRequest.cachePolicy` on a fresh entry, a stale entry and no entry.
    @Test(
        arguments: [
            (.useProtocolCachePolicy, .use, .revalidate, .fetch),
            (.reloadIgnoringLocalCacheData, .fetch, .fetch, .fetch),
            (.reloadIgnoringLocalAndRemoteCacheData, .fetch, .fetch, .fetch),
            (.reloadRevalidatingCacheData, .revalidate, .revalidate, .fetch),
            (.returnCacheDataElseLoad, .use, .use, .fetch), (.returnCacheDataDontLoad, .use, .use, .miss),
        ]
            as [(
                URLRequest.CachePolicy, RequestCachePolicy.Verdict, RequestCachePolicy.Verdict,
                RequestCachePolicy.Verdict
            )]
    )
    func heedsTheCachePolicy(
        _ policy: URLRequest.CachePolicy,
        _ fresh: RequestCachePolicy.Verdict,
        _ stale: RequestCachePolicy.Verdict,
        _ none: RequestCachePolicy.Verdict
    ) {
        #expect(request(nil, policy).verdict(on: entry(), at: now) == fresh)
        #expect(request(nil, policy).verdict(on: entry(staleness: 60), at: now) == stale)
        #expect(request(nil, policy).verdict(on: nil, at: now) == none)
    }

    /// The same for `Cache-Control` of the request (RFC 9111 section 5.2.1).
    @Test(
        arguments: [
            ("", .use, .revalidate, .fetch), ("no-cache", .revalidate, .revalidate, .fetch),
            ("max-age=70", .use, .revalidate, .fetch), ("max-age=69", .revalidate, .revalidate, .fetch),
            ("max-age=0", .revalidate, .revalidate, .fetch), ("max-age=x", .revalidate, .revalidate, .fetch),
            ("min-fresh=100", .use, .revalidate, .fetch), ("min-fresh=101", .revalidate, .revalidate, .fetch),
            ("only-if-cached", .use, .miss, .miss), ("only-if-cached, no-cache", .miss, .miss, .miss),
            ("max-stale=60", .use, .use, .fetch), ("max-stale=59", .use, .revalidate, .fetch),
            ("max-stale", .use, .use, .fetch), ("max-stale, max-age=69", .revalidate, .revalidate, .fetch),
            ("max-stale=x", .use, .revalidate, .fetch), ("no-store", .use, .revalidate, .fetch),
        ]
            as [(
                String, RequestCachePolicy.Verdict, RequestCachePolicy.Verdict, RequestCachePolicy.Verdict
            )]
    )
    func heedsTheDirectivesOfARequest(
        _ control: String,
        _ fresh: RequestCachePolicy.Verdict,
        _ stale: RequestCachePolicy.Verdict,
        _ none: RequestCachePolicy.Verdict
    ) {
        #expect(request(control).verdict(on: entry(), at: now) == fresh)
        #expect(request(control).verdict(on: entry(staleness: 60), at: now) == stale)
        #expect(request(control).verdict(on: nil, at: now) == none)
        #expect(request(control).allowsStorage == (control != "no-store"))
    }

    @Test func aRequestAllowsWhatTheOriginAllows() {
        #expect(request().verdict(on: entry(staleness: 49), at: now) == .use, "stale-while-revalidate")
        #expect(request("min-fresh=1").verdict(on: entry(staleness: 49), at: now) == .revalidate)
    }

    /// RFC 9111 section 4.2.4: response directives that forbid serving an entry stale.
    @Test(arguments: ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage=170", "max-age=170"])
    func aRequestCannotAllowWhatTheOriginForbids(_ control: String) {
        let verdict = request("max-stale").verdict(on: entry(control, staleness: 60), at: now)
        #expect(verdict == (control == "max-age=170" ? .use : .revalidate))
    }

    @Test func mostRequestsAreSilent() {
        #expect(request().isDefault && request("").isDefault)
        #expect(!request("no-cache").isDefault && !request(nil, .returnCacheDataElseLoad).isDefault)
        let (url, local) = (URL(string: "https://h/a")!, URL(string: "FILE:///a")!)
        var (header, file) = (ImageRequest(url: url), ImageRequest(url: local))
        #expect(header.cachePolicy.isDefault)
        (header.headers, file.headers) = (["cache-control": "no-cache"], ["cache-control": "no-cache"])
        #expect(header.cachePolicy == request("no-cache") && file.cachePolicy.isDefault)
    }

    /// RFC 8246: an immutable entry is not revalidated on reload, except for `no-cache` or once it is stale.
    @Test func anImmutableEntryIsNotRevalidated() {
        let immutable = "max-age=170, immutable"
        #expect(request("max-age=0").verdict(on: entry(immutable), at: now) == .use)
        #expect(request("no-cache").verdict(on: entry(immutable), at: now) == .revalidate)
        #expect(request("max-age=0").verdict(on: entry(immutable, staleness: 1), at: now) == .revalidate)
    }

    @Test func pragmaCountsWhereNothingElseIsSaid() {
        var old = URLRequest(url: URL(string: "https://h/a")!)
        old.setValue("no-cache", forHTTPHeaderField: "Pragma")
        #expect(RequestCachePolicy(old).verdict(on: entry(), at: now) == .revalidate)
        old.setValue("max-age=100", forHTTPHeaderField: "Cache-Control")
        #expect(RequestCachePolicy(old).verdict(on: entry(), at: now) == .use)
    }
}
