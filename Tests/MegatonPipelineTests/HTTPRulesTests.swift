import Foundation
import Testing

@testable import MegatonPipeline

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
