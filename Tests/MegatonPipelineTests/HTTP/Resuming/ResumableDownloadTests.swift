import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// Downloads that are interrupted and resumed, with `DataLoader` and a real origin.
@Suite(.timeLimit(.minutes(2))) struct ResumableDownloadTests {
    /// A body of the size that Nuke's test uses.
    private static let body = Data((0..<22_789).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    private static let limits = ResumableData.Limits(least: 1, most: 100_000)

    /// The outcome of one attempt.
    private enum End {
        case done(Data, HTTPURLResponse?)
        case failed(ImagePipeline.Error.Code, kept: ResumableData?)

        var kept: ResumableData? { if case .failed(_, let kept) = self { kept } else { nil } }
        var data: Data? { if case .done(let data, _) = self { data } else { nil } }
    }

    private let loader: DataLoader = {
        var configuration = DataLoader.Configuration()
        configuration.addressPolicy.allowsPrivate = true
        return DataLoader(configuration)
    }()

    /// Loads, and loads again without the part if the download asks for that.
    private func attempt(_ url: URL, resuming partial: ResumableData? = nil) async -> End {
        for partial in [partial, nil] {
            let download = ResumableDownload(URLRequest(url: url), resuming: partial, limits: Self.limits)
            let observer = DownloadObserver()
            switch await loader.attempt(download, as: download.request, limit: Self.limits.most, observer: observer) {
            case .again: continue
            case .done(let data, let response), .enough(let data, let response):
                return .done(data, response as? HTTPURLResponse)
            case .failed(let error, let kept): return .failed(error.code, kept: kept)
            }
        }
        Issue.record("It wanted to begin anew twice.")
        return .failed(.cancelled, kept: nil)
    }

    /// An origin that cuts off each response after `bytes` bytes; 0 sends all that was asked for.
    private func site(
        tag: String = "\"1\"",
        _ bytes: Int
    ) -> @Sendable (OriginServer.Request) -> OriginServer.Answer {
        { request in
            let headers = [("Accept-Ranges", "bytes"), ("ETag", tag), ("Content-Type", "image/png")]
            let whole = Self.body
            let range = request.headers["range"]?.dropFirst("bytes=".count).dropLast()
            guard let start = range.flatMap({ Int($0) }), request.headers["if-range"] == tag else {
                let part = bytes > 0 ? whole.prefix(bytes) : whole
                return OriginServer.Answer(headers: headers, body: Data(part), announcedLength: whole.count)
            }
            let rest = whole.dropFirst(start)
            return OriginServer.Answer(
                status: 206,
                headers: headers + [("Content-Range", "bytes \(start)-\(whole.count - 1)/\(whole.count)")],
                body: Data(bytes > 0 ? rest.prefix(bytes) : rest),
                announcedLength: rest.count
            )
        }
    }

    /// Interrupted twice, with every byte sent once.
    @Test func aDownloadGoesOnWhereItWasCutOff() async throws {
        try await OriginServer.run(responding: site(10_000)) { (origin) async throws in
            let first = await attempt(origin.url("/a"))
            #expect(first.kept?.data.count == 10_000)
            let second = await attempt(origin.url("/a"), resuming: first.kept)
            #expect(second.kept?.data.count == 20_000)
            // As another process would.
            let blob = try #require(second.kept).encoded()
            let third = await attempt(origin.url("/a"), resuming: ResumableData(encoded: blob))
            guard case .done(let data, let response) = third else {
                Issue.record("It should be whole.")
                return
            }
            #expect(data == Self.body && origin.total == 3)
            #expect(response?.statusCode == 200 && response?.expectedContentLength == 22_789)
            #expect(response?.lowercasedHeaders["content-type"] == "image/png")
        }
    }

    /// The image has changed meanwhile, and the origin responds with the whole.
    @Test func aChangedImageIsFetchedAsAWhole() async throws {
        try await OriginServer.run(responding: site(tag: "\"2\"", 0)) { (origin) async throws in
            let url = origin.url("/a")
            let end = await attempt(url, resuming: Self.partial(at: url, count: 10_000))
            #expect(end.data == Self.body && origin.total == 1, "200 in the place of a part")
        }
    }

    /// An origin that ignores `If-Range` sends a part of another representation.
    @Test func aPartThatDoesNotFitIsNeverJoined() async throws {
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            let headers = [("Accept-Ranges", "bytes"), ("ETag", "\"1\"")]
            if request.headers["range"] != nil {
                let other = headers + [("Content-Range", "bytes 10000-19999/20000")]
                return OriginServer.Answer(status: 206, headers: other, body: Data(count: 10_000))
            }
            return OriginServer.Answer(headers: headers, body: Self.body)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let url = origin.url("/a")
            let partial = try #require(Self.partial(at: url, count: 10_000))
            let end = await attempt(url, resuming: partial)
            #expect(end.data == Self.body && origin.total == 2)
        }
    }

    /// Asked once with the range, once without, and never again with it.
    @Test func aRefusedRangeIsForgotten() async throws {
        let ranges = Mutex<[String?]>([])
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            ranges.withLock { $0.append(request.headers["range"]) }
            let headers = [("Accept-Ranges", "bytes"), ("ETag", "\"1\"")]
            if request.headers["range"] != nil { return OriginServer.Answer(status: 416, headers: headers) }
            return OriginServer.Answer(headers: headers, body: Self.body.prefix(20_000), announcedLength: 22_789)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let url = origin.url("/a")
            let end = await attempt(url, resuming: Self.partial(at: url, count: 10_000))
            #expect(end.kept?.data.count == 20_000, "of the second answer")
            #expect(ranges.withLock { $0 } == ["bytes=10000-", nil])
        }
    }

    /// A failure of the origin says nothing about the part; a refusal or 404 discards it.
    @Test(arguments: [(503, 10_000), (404, nil), (403, nil)] as [(Int, Int?)])
    func aFailureOfTheOriginLeavesThePart(_ status: Int, _ count: Int?) async throws {
        try await OriginServer.run(responding: { _ in OriginServer.Answer(status: status) }) { (origin) async throws in
            let url = origin.url("/a")
            let end = await attempt(url, resuming: Self.partial(at: url, count: 10_000))
            #expect(end.kept?.data.count == count && origin.total == 1)
        }
    }

    // MARK: - Without an origin

    private static func headers(_ more: [String: String]) -> [String: String] {
        ["Accept-Ranges": "bytes", "ETag": "\"1\""].merging(more) { $1 }
    }

    private static func partial(at url: URL, count: Int) -> ResumableData? {
        ResumableData(
            request: URLRequest(url: url),
            response: HTTPURLResponse(
                url: url,
                statusCode: 200,
                httpVersion: nil,
                headerFields: headers(["Content-Length": "22789"])
            ),
            data: body.prefix(count),
            limits: limits
        )
    }

    /// 22,789 bytes in six chunks, three and then three; progress is always relative to the whole body.
    @Test func progressIsOfTheWhole() throws {
        let url = try #require(URL(string: "https://h/a"))
        func response(_ status: Int, _ more: [String: String]) throws -> HTTPURLResponse {
            let fields = Self.headers(more)
            return try #require(
                HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: fields)
            )
        }
        let size = 22_789 / 6 + 1
        let chunks = stride(from: 0, to: 22_789, by: size).map { Self.body.dropFirst($0).prefix(size) }
        #expect(chunks.count == 6)
        var first = ResumableDownload(URLRequest(url: url), resuming: nil, limits: Self.limits)
        #expect(first.progress.completed == 0 && first.progress.total == nil)
        let whole = try response(200, ["Content-Length": "22789"])
        for (index, chunk) in chunks[..<3].enumerated() {
            let goesOn = first.receive(chunk, whole)
            #expect(goesOn)
            #expect(first.progress.completed == (index + 1) * size && first.progress.total == 22_789)
        }
        guard case .failed(_, let kept?) = first.end(ImagePipeline.Error(.cancelled, "")) else {
            Issue.record("Nothing was kept.")
            return
        }
        var second = ResumableDownload(URLRequest(url: url), resuming: kept, limits: Self.limits)
        #expect(second.progress.completed == 3 * size && second.progress.total == 22_789)
        let range = "bytes \(3 * size)-22788/22789"
        let rest = try response(206, ["Content-Length": "\(22_789 - 3 * size)", "Content-Range": range])
        for (index, chunk) in chunks[3...].enumerated() {
            let goesOn = second.receive(chunk, rest)
            #expect(goesOn)
            #expect(second.progress.completed == min(22_789, (index + 4) * size) && second.progress.total == 22_789)
        }
        guard case .done(let data, _) = second.end(nil) else {
            Issue.record("It is whole.")
            return
        }
        #expect(data == Self.body)
    }

    /// A download that is cancelled before the origin responds leaves the stored part.
    @Test func aStoredPartSurvivesACancellation() throws {
        let url = try #require(URL(string: "https://h/a"))
        let partial = try #require(Self.partial(at: url, count: 10_000))
        var download = ResumableDownload(URLRequest(url: url), resuming: partial, limits: Self.limits)
        guard case .failed(let error, let kept) = download.end(ImagePipeline.Error(.cancelled, "")) else {
            Issue.record("It was cancelled.")
            return
        }
        #expect(error.code == .cancelled && kept == partial)
    }

    /// An origin may send less than the rest (RFC 9110 section 15.3.7): not an error of the loader, but not a whole
    /// image yet.
    @Test func aShorterPartIsNotTheEnd() throws {
        let url = try #require(URL(string: "https://h/a"))
        let partial = try #require(Self.partial(at: url, count: 10_000))
        var download = ResumableDownload(URLRequest(url: url), resuming: partial, limits: Self.limits)
        let fields = Self.headers(["Content-Range": "bytes 10000-14999/22789"])
        let response = try #require(
            HTTPURLResponse(url: url, statusCode: 206, httpVersion: nil, headerFields: fields)
        )
        let goesOn = download.receive(Self.body.dropFirst(10_000).prefix(5000), response)
        #expect(goesOn)
        guard case .failed(let error, let kept) = download.end(nil) else {
            Issue.record("It is not whole.")
            return
        }
        #expect(error.code == .incompleteBody && error.isRetryable && kept?.data.count == 15_000)
    }
}
