import Foundation
import FoundationNetworking
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

/// The stored part of an interrupted download, and the conditions for its use. With a real origin:
/// `ResumableDownloadTests`.
@Suite struct ResumableDataTests {
    private static let limits = ResumableData.Limits(least: 1, most: 1000)
    private static let modified = "Wed, 21 Oct 2015 07:28:00 GMT"
    private static let later = "Wed, 21 Oct 2015 07:28:01 GMT"

    private func request(_ url: String = "https://h/a.jpg", _ headers: [String: String] = [:]) -> URLRequest {
        var request = URLRequest(url: URL(string: url)!)
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        return request
    }

    private func response(_ status: Int, _ headers: [String: String]) -> HTTPURLResponse {
        HTTPURLResponse(
            url: URL(string: "https://h/a.jpg")!,
            statusCode: status,
            httpVersion: nil,
            headerFields: headers
        )!
    }

    /// A response that can be resumed, with changed header fields: 100 bytes.
    private func whole(_ changes: [String: String?] = [:]) -> HTTPURLResponse {
        var headers = ["Accept-Ranges": "bytes", "Content-Length": "100", "ETag": "\"1\""]
        for (name, value) in changes { headers[name] = value }
        return response(200, headers)
    }

    private func rest(_ range: String?, _ headers: [String: String] = [:]) -> HTTPURLResponse {
        response(206, headers.merging(range.map { ["Content-Range": $0] } ?? [:]) { $1 })
    }

    private func kept(
        _ count: Int = 60,
        of response: URLResponse? = nil,
        continuing previous: ResumableData? = nil,
        limits: ResumableData.Limits = limits
    ) -> ResumableData? {
        ResumableData(
            request: request(),
            response: response ?? whole(),
            data: Data(repeating: 7, count: count),
            continuing: previous,
            limits: limits
        )
    }

    // MARK: - Range requests

    @Test func asksForTheRestOfTheSameRepresentation() throws {
        let partial = try #require(kept())
        #expect(partial.total == 100 && partial.data.count == 60)
        var resumed = request()
        #expect(partial.resume(&resumed))
        #expect(resumed.value(forHTTPHeaderField: "Range") == "bytes=60-")
        #expect(resumed.value(forHTTPHeaderField: "If-Range") == "\"1\"")
    }

    /// The entity tag takes precedence over the date, which counts only without a tag.
    @Test func aDateIsAValidatorWhereThereIsNoTag() throws {
        var dates: [String: String?] = ["Last-Modified": Self.modified, "Date": Self.later]
        #expect(kept(of: whole(dates))?.validator == "\"1\"")
        dates["ETag"] = .some(nil)
        #expect(kept(of: whole(dates))?.validator == Self.modified)
    }

    /// A request for another resource is not changed, nor is one with a range of its own. The query may differ, as in
    /// presigned URLs.
    @Test func resumesTheSameThingOnly() throws {
        let partial = try #require(kept())
        for url in ["https://h/b.jpg", "http://h/a.jpg", "https://i/a.jpg", "https://h:444/a.jpg"] {
            var other = request(url)
            #expect(!partial.resume(&other) && other == request(url))
        }
        for field in ["Range", "If-Range"] {
            var other = request("https://h/a.jpg", [field: "x"])
            #expect(!partial.resume(&other) && other.value(forHTTPHeaderField: field) == "x")
        }
        var presigned = request("https://H/a.jpg?signature=2")
        #expect(partial.resume(&presigned))
        var conditional = request("https://h/a.jpg", ["If-None-Match": "\"0\""])
        #expect(partial.resume(&conditional), "the older picture may have come back (RFC 9110 section 13.2.2)")
    }

    // MARK: - Storing

    /// Complete bodies, and parts that cannot be resumed.
    @Test func aPartThatCannotBeResumedIsNotStored() throws {
        #expect(kept(0) == nil && kept(100) == nil && kept(101) == nil)
        #expect(kept(1) != nil && kept(99) != nil)
        let url = try #require(URL(string: "https://h/a.jpg"))
        let other = URLResponse(url: url, mimeType: nil, expectedContentLength: 100, textEncodingName: nil)
        #expect(kept(of: other) == nil, "not HTTP")
        let changes: [[String: String?]] = [
            ["ETag": nil], ["Accept-Ranges": nil], ["Accept-Ranges": "none"], ["Accept-Ranges": "rows"],
            ["Content-Length": nil], ["Content-Length": "1e2"], ["Content-Length": "-1"], ["Content-Encoding": "gzip"],
            ["Transfer-Encoding": "chunked"],
        ]
        for change in changes { #expect(kept(of: whole(change)) == nil) }
        #expect(kept(of: whole(["Accept-Ranges": "x, Bytes", "Content-Encoding": "identity"])) != nil)
        for status in [201, 203, 304, 404, 500] {
            let headers = ["Accept-Ranges": "bytes", "Content-Length": "100", "ETag": "\"1\""]
            #expect(kept(of: response(status, headers)) == nil)
        }
    }

    @Test func littleIsNotWorthItAndTooMuchIsNotKept() throws {
        #expect(kept(60, limits: .init(least: 61, most: 1000)) == nil)
        #expect(kept(60, limits: .init(least: 60, most: 100)) != nil)
        #expect(kept(60, limits: .init(least: 60, most: 99)) == nil)
        #expect(ResumableData.Limits().least == 65_536 && ResumableData.Limits().most == 67_108_864)
    }

    /// RFC 9111 section 3.3: partial responses are stored in the shared cache too.
    @Test func aPartIsKeptByTheRulesForTheWhole() throws {
        for control in ["no-store", "private"] { #expect(kept(of: whole(["Cache-Control": control])) == nil) }
        #expect(kept(of: whole(["Vary": "*"])) == nil)
        let authorized = request("https://h/a.jpg", ["Authorization": "x"])
        for (control, isKept) in [("max-age=60", false), ("public", true)] {
            let partial = ResumableData(
                request: authorized,
                response: whole(["Cache-Control": control]),
                data: Data(count: 60),
                limits: Self.limits
            )
            #expect((partial != nil) == isKept)
        }
    }

    /// Not valid for ranges are a weak tag (RFC 9110 section 13.1.5), a date beside a weak tag, a date so recent
    /// that the image may have changed again (section 8.8.2.2), and a tag that several representations share.
    @Test func weakValidatorsAreNotSent() throws {
        let dates: [String: String?] = ["Last-Modified": Self.modified, "Date": Self.later]
        for tag in ["W/\"1\"", "w/\"1\"", "1", "\"1", "\"", "", "\"a\"b\"", "\"a b\""] {
            #expect(kept(of: whole(dates.merging(["ETag": tag]) { $1 })) == nil)
        }
        let changes: [[String: String?]] = [
            ["Date": Self.modified], ["Date": nil], ["Date": "x"], ["Last-Modified": "x"], ["Vary": "Accept"],
        ]
        for change in changes {
            let all = dates.merging(["ETag": nil]) { $1 }.merging(change) { $1 }
            #expect(kept(of: whole(all)) == nil)
        }
        #expect(kept(of: whole(["Vary": "Accept"])) != nil, "a strong tag is of one representation only")
    }

    /// A resumed download that is interrupted again keeps all bytes, old and new.
    @Test func aSecondInterruptionKeepsAll() throws {
        let first = try #require(kept(60))
        let headers = ["Content-Length": "40", "ETag": "\"1\""]
        let second = try #require(kept(80, of: rest("bytes 60-99/100", headers), continuing: first))
        #expect(second.data.count == 80 && second.total == 100 && second.validator == "\"1\"")
        var resumed = request()
        #expect(second.resume(&resumed) && resumed.value(forHTTPHeaderField: "Range") == "bytes=80-")
        // RFC 9110 section 15.3.7: a partial response may omit its validator.
        let third = try #require(kept(90, of: rest("bytes 80-99/100"), continuing: second))
        #expect(third.data.count == 90 && third.headers == first.headers)
        #expect(kept(100, of: rest("bytes 60-99/100"), continuing: first) == nil, "complete")
        #expect(kept(80, of: rest("bytes 60-99/100"), continuing: kept(50)) == nil, "no continuation of that")
        #expect(kept(10, of: whole(["ETag": "\"2\""]), continuing: first)?.validator == "\"2\"", "begun anew")
        let alone = try #require(kept(80, of: rest("bytes 0-99/100", ["ETag": "\"1\""])))
        #expect(alone.total == 100)
        #expect(kept(80, of: rest("bytes 20-99/100", ["ETag": "\"1\""])) == nil)
    }

    // MARK: - The response

    /// Parts are joined only if the rest starts at the end of the stored part, and the total lengths agree.
    @Test(
        arguments: [
            ("bytes 60-99/100", true), ("Bytes 60-99/100", true), ("bytes 60-80/100", true), ("bytes 59-99/100", false),
            ("bytes 61-99/100", false), ("bytes 0-99/100", false), ("bytes 60-100/101", false),
            ("bytes 60-98/99", false),
            ("bytes 60-99/*", false), ("bytes */100", false), ("bytes 60-100/100", false), ("bytes 60-59/100", false),
            ("rows 60-99/100", false), ("60-99/100", false), ("bytes 60-99", false), ("bytes +60-99/100", false),
            ("bytes 60-99/100, bytes 0-1/100", false), ("", false), (nil, false),
        ] as [(String?, Bool)]
    )
    func aPartMustFit(_ range: String?, _ fits: Bool) throws {
        let splice = try #require(kept()).splice(with: rest(range))
        #expect(splice == (fits ? .append : .forget(retries: true)))
    }

    /// A part of another representation than the stored one.
    @Test func aPartMustBeOfTheSameRepresentation() throws {
        let partial = try #require(kept())
        #expect(partial.splice(with: rest("bytes 60-99/100", ["ETag": "\"1\""])) == .append)
        for headers in [["ETag": "\"2\""], ["ETag": "W/\"1\""], ["Content-Encoding": "gzip"]] {
            #expect(partial.splice(with: rest("bytes 60-99/100", headers)) == .forget(retries: true))
        }
    }

    /// Without a tag in the response its date decides, if it has one.
    @Test func aPartMustHaveTheSameDate() throws {
        let dated = try #require(kept(of: whole(["ETag": nil, "Last-Modified": Self.modified, "Date": Self.later])))
        let tagged = try #require(kept(of: whole(["Last-Modified": Self.modified])))
        for partial in [dated, tagged] {
            let same = rest("bytes 60-99/100", ["Last-Modified": Self.modified])
            #expect(partial.splice(with: same) == .append)
            let other = rest("bytes 60-99/100", ["Last-Modified": Self.later])
            #expect(partial.splice(with: other) == .forget(retries: true))
        }
        let copy = rest("bytes 60-99/100", ["ETag": "\"1\"", "Last-Modified": Self.later])
        #expect(tagged.splice(with: copy) == .append, "the servers of an origin may have different dates")
    }

    /// A refused part is forgotten, so that no attempt sends the same range again. A response that says
    /// nothing about the range leaves the part unchanged.
    @Test(
        arguments: [
            (200, .restart), (203, .restart), (304, .restart), (416, .forget(retries: true)),
            (400, .forget(retries: false)), (403, .forget(retries: false)), (404, .forget(retries: false)),
            (410, .forget(retries: false)), (412, .forget(retries: false)), (408, .keep), (425, .keep), (429, .keep),
            (500, .keep), (503, .keep),
        ] as [(Int, ResumableData.Splice)]
    )
    func aStatusDecidesOnTheStoredPart(_ status: Int, _ splice: ResumableData.Splice) throws {
        let partial = try #require(kept())
        #expect(partial.splice(with: response(status, [:])) == splice)
        #expect(partial.splice(after: ImagePipeline.Error(.httpStatus, "", status: status)) == splice)
    }

    @Test func aPartIsStillGoodAfterAFailureWithoutAResponse() throws {
        let partial = try #require(kept())
        #expect(partial.splice(with: nil) == .keep)
        for code in [ImagePipeline.Error.Code.cancelled, .timedOut, .unreachable, .incompleteBody] {
            #expect(partial.splice(after: ImagePipeline.Error(code, "")) == .keep)
        }
    }

    /// RFC 9111 section 3.4: the whole has the header fields of its first part, updated by the second.
    @Test func theWholeHasItsAnswer() throws {
        let first = whole(["Content-Type": "image/png", "Cache-Control": "max-age=1", "Set-Cookie": "a"])
        let partial = try #require(kept(of: first))
        let answer = rest("bytes 60-99/100", ["Cache-Control": "max-age=60", "Content-Length": "40"])
        let headers = try #require(partial.whole(with: answer)).lowercasedHeaders
        #expect(
            headers == [
                "accept-ranges": "bytes", "etag": "\"1\"", "content-type": "image/png", "cache-control": "max-age=60",
                "content-length": "100",
            ]
        )
        #expect(partial.whole(with: answer)?.statusCode == 200)
        #expect(partial.isWhole(Data(count: 100)) && !partial.isWhole(Data(count: 99)))
    }

    // MARK: - In a cache

    @Test func anotherWorkerCanGoOn() throws {
        let now = Date(timeIntervalSince1970: 1_000_000)
        let partial = try #require(kept())
        let blob = try partial.encoded(at: now)
        #expect(ResumableData(encoded: blob, at: now) == partial)
        #expect(ResumableData(encoded: blob, at: now.addingTimeInterval(86_400)) != nil)
        #expect(ResumableData(encoded: blob, at: now.addingTimeInterval(86_401)) == nil)
        #expect(ResumableData(encoded: blob.dropFirst(), at: now) == nil)
        // A damaged blob is rejected.
        for length in 0..<blob.count { #expect(ResumableData(encoded: blob.prefix(length), at: now) == nil) }
        for index in blob.indices.suffix(60) {
            var damaged = blob
            damaged[index] ^= 1
            #expect(ResumableData(encoded: damaged, at: now) == nil)
        }
        var slice = Data([0]) + blob
        slice = slice.dropFirst()
        #expect(ResumableData(encoded: slice, at: now) == partial)
        #expect(ResumableData(encoded: try CachedData(data: Data([1]), metadata: .init(lifetime: 1)).encoded()) == nil)
    }

    /// A cached blob cannot inject header fields into a request.
    @Test func noLineGetsIntoARequest() throws {
        let now = Date(timeIntervalSince1970: 1_000_000)
        var blob = try #require(kept()).encoded(at: now)
        let validator = try #require(blob.range(of: Data(#""validator":"\"1\"""#.utf8)))
        blob.replaceSubrange(validator, with: Data(#""validator":"\"\n\"""#.utf8))
        #expect(ResumableData(encoded: blob, at: now) == nil)
    }

    @Test func noSecretOfTheURLIsKept() throws {
        let partial = ResumableData(
            request: request("https://name:secret@h/a.jpg?signature=secret#f"),
            response: whole(),
            data: Data(count: 60),
            limits: Self.limits
        )
        #expect(try #require(partial).url.absoluteString == "https://h/a.jpg")
    }
}
