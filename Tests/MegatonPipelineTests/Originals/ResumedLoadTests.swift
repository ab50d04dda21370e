import Foundation
import FoundationNetworking
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// Pipelines that share a cache and an origin that cuts off downloads: one resumes what another started.
@Suite(.timeLimit(.minutes(2))) struct ResumedLoadTests {
    /// A body of three times the minimum that is stored, with the signature of a PNG.
    private static let body =
        Data([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
        + Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })

    /// The `Range` field of each request; empty if there was none.
    private let ranges = TestLog<String>()
    private let cache = CountingDataCache()

    /// An origin that sends at most `bytes` bytes of each response, and then cuts it off.
    ///
    /// - Parameters:
    ///   - shift: offset of the part that is sent relative to the requested range.
    ///   - stalls: sends nothing more, but keeps the connection open.
    private func site(
        tag: String = "\"1\"",
        control: String = "max-age=60",
        more: [(String, String)] = [("Accept-Ranges", "bytes")],
        shift: Int = 0,
        refuses: Bool = false,
        stalls: Bool = false,
        _ most: Int
    ) -> @Sendable (OriginServer.Request) -> OriginServer.Answer {
        { [ranges] request in
            let (whole, range) = (Self.body, request.headers["range"])
            ranges.append(range ?? "")
            let headers = [("ETag", tag), ("Content-Type", "image/png"), ("Cache-Control", control)] + more
            if range != nil, refuses { return OriginServer.Answer(status: 416, headers: headers) }
            let start = range.flatMap { Int($0.dropFirst("bytes=".count).dropLast()) } ?? 0
            let isPart = start > 0 && request.headers["if-range"] == tag
            let rest = isPart ? whole.dropFirst(start) : whole
            let fields = [("Content-Range", "bytes \(start + shift)-\(whole.count - 1)/\(whole.count)")]
            return OriginServer.Answer(
                status: isPart ? 206 : 200,
                headers: headers + (isPart ? fields : []),
                body: Data(rest.prefix(most)),
                announcedLength: rest.count,
                stream: stalls ? OriginStream(piece: Data([0]), interval: .hours(1)) : nil
            )
        }
    }

    /// A worker: all of them share one cache.
    private func worker(
        delegate: (any ImagePipeline.Delegate)? = nil,
        _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
    ) -> ImagePipeline {
        PipelineProbe(cache, delegate: delegate, change).pipeline
    }

    private func code(_ pipeline: ImagePipeline, _ url: URL) async -> ImagePipeline.Error.Code? {
        await TestPipeline.code { try await pipeline.data(for: url) }
    }

    // MARK: - Resuming

    /// Interrupted twice, with each byte sent once; another worker resumes each time.
    @Test func anotherWorkerGoesOnWhereOneWasCutOff() async throws {
        try await OriginServer.run(responding: site(100_000)) { (origin) async throws in
            let url = origin.url("/a")
            #expect(await code(worker(), url) == .incompleteBody)
            #expect(await code(worker(), url) == .incompleteBody)
            let partial = try #require(cache.partials.first.flatMap { ResumableData(encoded: $0) })
            #expect(partial.data == Self.body.prefix(200_000), "a second interruption keeps all")
            let third = await code(worker(), url)
            #expect(third == .incompleteBody)
            let (data, response) = try await worker().data(for: url)
            #expect(data == Self.body)
            #expect(ranges.values == ["", "bytes=100000-", "bytes=200000-", "bytes=300000-"])
            let http = try #require(response as? HTTPURLResponse)
            #expect(http.statusCode == 200 && http.expectedContentLength == Int64(Self.body.count))
            #expect(cache.partials.isEmpty, "nothing is left of it")
            let kept = try await worker().data(for: url)
            #expect(kept.data == Self.body && origin.total == 4, "what was put together is kept as a whole")
        }
    }

    /// Fault: the condition about the old image was sent each time, and never the range.
    @Test func aReplacementThatWasCutOffGoesOn() async throws {
        let isChanged = Mutex(false)
        let old = site(control: "no-cache", Self.body.count)
        let new = site(tag: "\"2\"", control: "no-cache", 200_000)
        let site: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            isChanged.withLock { $0 } ? new(request) : old(request)
        }
        try await OriginServer.run(responding: site) { (origin) async throws in
            let url = origin.url("/a")
            #expect(try await worker().data(for: url).data == Self.body)
            isChanged.withLock { $0 = true }
            #expect(await code(worker(), url) == .incompleteBody)
            #expect(try await worker().data(for: url).data == Self.body)
            #expect(ranges.values == ["", "", "bytes=200000-"])
        }
    }

    /// Fault: after a reload that was cut off, the image was fetched again although it had not changed.
    @Test func aPartOfTheSameImageIsNoChange() async throws {
        let isCut = Mutex(false)
        let (whole, cut) = (site(control: "no-cache", Self.body.count), site(control: "no-cache", 200_000))
        let site: @Sendable (OriginServer.Request) -> OriginServer.Answer = { request in
            if request.headers["if-none-match"] == "\"1\"" {
                return OriginServer.Answer(status: 304, headers: [("ETag", "\"1\"")])
            }
            return isCut.withLock { $0 } ? cut(request) : whole(request)
        }
        try await OriginServer.run(responding: site) { (origin) async throws in
            let url = origin.url("/a")
            #expect(try await worker().data(for: url).data == Self.body)
            isCut.withLock { $0 = true }
            let reload = ImageRequest(url: url, options: .reloadIgnoringCachedData)
            #expect(await TestPipeline.code { try await worker().data(for: reload) } == .incompleteBody)
            #expect(cache.partials.count == 1)
            #expect(try await worker().data(for: url).data == Self.body)
            #expect(origin.total == 3)
        }
    }

    /// The first progress of a resumed download is beyond the stored part.
    @Test func theProgressOfAResumedLoadIsOfTheWhole() async throws {
        try await OriginServer.run(responding: site(200_000)) { (origin) async throws in
            let url = origin.url("/a")
            #expect(await code(worker(), url) == .incompleteBody)
            let task = worker().imageTask(with: url)
            var progress: [ImageTask.Progress] = []
            for await one in task.progress { progress.append(one) }
            let first = try #require(progress.first)
            #expect(first.completed > 200_000 && first.total == Int64(Self.body.count))
            #expect(progress.last?.completed == Int64(Self.body.count))
        }
    }

    /// The delegate sees the final request, including the range.
    @Test func aDelegateSeesTheRange() async throws {
        try await OriginServer.run(responding: site(200_000)) { (origin) async throws in
            let url = origin.url("/a")
            #expect(await code(worker(), url) == .incompleteBody)
            let delegate = TestDelegate {
                $0.willLoad = { request, _ in
                    var request = request
                    request.setValue("Bearer 1", forHTTPHeaderField: "Authorization")
                    return request
                }
            }
            let (data, _) = try await worker(delegate: delegate).data(for: url)
            #expect(data == Self.body)
            let sent = delegate.loads.values.map { $0.value(forHTTPHeaderField: "Range") }
            #expect(sent == ["bytes=200000-"] && ranges.values == ["", "bytes=200000-"])
        }
    }

    // Fault: a part that a delegate's token gave access to was stored for requests without one (RFC 9111 section 3.5).
    @Test(arguments: [("max-age=60", false), ("public, max-age=60", true)])
    func aPartThatATokenHasOpened(_ control: String, _ isKept: Bool) async throws {
        try await OriginServer.run(responding: site(control: control, 200_000)) { (origin) async throws in
            let delegate = TestDelegate {
                $0.willLoad = { request, _ in
                    var request = request
                    request.setValue("Bearer 1", forHTTPHeaderField: "Authorization")
                    return request
                }
            }
            #expect(await code(worker(delegate: delegate), origin.url("/a")) == .incompleteBody)
            #expect(cache.partials.isEmpty == !isKept)
        }
    }

    // MARK: - Cancellation

    /// A cancelled download leaves its part to the next one.
    @Test func aCancelledDownloadLeavesWhatHasCome() async throws {
        try await OriginServer.run(responding: site(stalls: true, 100_000)) { (origin) async throws in
            let url = origin.url("/a")
            let task = worker().imageTask(with: url)
            for await progress in task.progress where progress.completed == 100_000 { task.cancel() }
            let partial = try await self.partial()
            #expect(partial.data == Self.body.prefix(100_000))
        }
    }

    /// Cancelled before the origin has responded.
    @Test func aStoredPartSurvivesACancellationBeforeTheResponse() async throws {
        try await OriginServer.run(responding: site(100_000)) { (origin) async throws in
            let url = origin.url("/a")
            #expect(await code(worker(), url) == .incompleteBody)
            origin.hold()
            let pipeline = worker()
            let task = pipeline.imageTask(with: url)
            await origin.waitForRequests("/a", count: 2)
            task.cancel()
            #expect(await TestPipeline.code { try await task.response } == .cancelled)
            // The part is stored once the download's slot is free.
            while pipeline.originals.fetches.runningCount > 0, !Task.isCancelled { await Task.yield() }
            let partial = try #require(cache.partials.first.flatMap { ResumableData(encoded: $0) })
            #expect(partial.data == Self.body.prefix(100_000))
        }
    }

    /// A killed process cannot store anything at its end: the part is stored at intervals during the download.
    @Test func receivedBytesAreStoredWhileMoreAreAwaited() async throws {
        try await OriginServer.run(responding: site(stalls: true, 200_000)) { (origin) async throws in
            let task = worker { $0.resumableDataInterval = .zero }.imageTask(with: origin.url("/a"))
            let partial = try await self.partial()
            #expect(partial.data.count >= 64 * 1024 && Self.body.starts(with: partial.data))
            #expect(task.status.result == nil, "it is still under way")
            task.cancel()
        }
    }

    /// The stored part, as soon as there is one.
    private func partial() async throws -> ResumableData {
        while cache.partials.isEmpty {
            try Task.checkCancellation()
            await Task.yield()
        }
        return try #require(cache.partials.first.flatMap { ResumableData(encoded: $0) })
    }

    // MARK: - Starting over

    /// The image has changed meanwhile, and is sent as a whole.
    @Test func aChangedImageIsLoadedAsAWhole() async throws {
        let site = [self.site(100_000), self.site(tag: "\"2\"", 1_000_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            let (data, _) = try await worker().data(for: origin.url("/a"))
            #expect(data == Self.body && ranges.values == ["", "bytes=100000-"] && cache.partials.isEmpty)
        }
    }

    /// The changed image may have another length.
    @Test func aChangedImageMayHaveAnotherLength() async throws {
        let other = Self.body.prefix(150_000)
        let headers = [("Accept-Ranges", "bytes"), ("ETag", "\"2\"")]
        let (first, answers) = (site(100_000), TestLog<Int>())
        try await OriginServer.run(
            responding: { request in
                answers.append(1)
                return answers.count == 1
                    ? first(request) : OriginServer.Answer(headers: headers, body: Data(other))
            }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            let (data, _) = try await worker().data(for: origin.url("/a"))
            #expect(data == other && origin.total == 2 && cache.partials.isEmpty)
        }
    }

    /// The image has changed, and is cut off after the same number of bytes: the new part replaces the old one.
    @Test func aPartOfAChangedImageReplacesTheOldPart() async throws {
        let site = [self.site(100_000), self.site(tag: "\"2\"", 100_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            for _ in 0..<3 { #expect(await code(worker(), origin.url("/a")) == .incompleteBody) }
            let partial = try await self.partial()
            #expect(partial.validator == "\"2\"" && partial.data == Self.body.prefix(200_000))
            #expect(ranges.values == ["", "bytes=100000-", "bytes=100000-"])
        }
    }

    /// The same during a download, with fewer bytes than the old part has.
    @Test func aPartOfAChangedImageIsStoredWhileMoreIsAwaited() async throws {
        let site = [self.site(200_000), self.site(tag: "\"2\"", stalls: true, 100_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            let task = worker { $0.resumableDataInterval = .zero }.imageTask(with: origin.url("/a"))
            while try await partial().validator != "\"2\"", !Task.isCancelled { await Task.yield() }
            #expect(task.status.result == nil, "it is still under way")
            task.cancel()
        }
    }

    /// A part other than the one that was asked for is never joined.
    @Test func aPartThatDoesNotFitIsNotJoined() async throws {
        let site = [self.site(100_000), self.site(shift: 1, 1_000_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            let (data, _) = try await worker().data(for: origin.url("/a"))
            #expect(data == Self.body && ranges.values == ["", "bytes=100000-", ""] && cache.partials.isEmpty)
        }
    }

    /// After a 416 the origin is asked for the whole, once.
    @Test func aRefusedRangeIsAskedForOnce() async throws {
        let site = [self.site(200_000), self.site(tag: "\"2\"", refuses: true, 200_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            // The whole is cut off again, and its part is stored anew.
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            #expect(ranges.values == ["", "bytes=200000-", ""] && cache.partials.count == 1)
            #expect(cache.partials.first.flatMap { ResumableData(encoded: $0) }?.validator == "\"2\"")
        }
    }

    /// Without a strong validator, or without support for ranges, nothing is stored.
    @Test(arguments: ["W/\"1\"", "none"]) func aDownloadThatCannotBeResumedStartsAnew(_ what: String) async throws {
        let isWeak = what != "none"
        let more = isWeak ? [("Accept-Ranges", "bytes")] : [("Accept-Ranges", what)]
        let site = self.site(tag: isWeak ? what : "\"1\"", more: more, 100_000)
        try await OriginServer.run(responding: site) { (origin) async throws in
            for _ in 0..<2 { #expect(await code(worker(), origin.url("/a")) == .incompleteBody) }
            #expect(ranges.values == ["", ""] && cache.partials.isEmpty)
        }
    }

    /// No part is stored if the configuration, policy, option or request forbids storing the whole.
    @Test(arguments: ["switch", "policy", "option", "no-store"]) func nothingIsKeptAgainstTheWish(_ what: String)
        async throws
    {
        try await OriginServer.run(responding: site(100_000)) { (origin) async throws in
            let pipeline = worker {
                $0.isResumableDataEnabled = what != "switch"
                if what == "policy" { $0.dataCachePolicy = .storeNothing }
            }
            var request = ImageRequest(url: origin.url("/a"))
            if what == "option" { request.options.insert(.disableDiskCacheWrites) }
            if what == "no-store" { request.headers["Cache-Control"] = "no-store" }
            let (wanted, code) = (request, ImagePipeline.Error.Code.incompleteBody)
            #expect(await TestPipeline.code { try await pipeline.data(for: wanted) } == code)
            #expect(cache.partials.isEmpty)
        }
    }

    /// A coordinator that lets every caller lead, with a hint of whether a part is stored.
    private struct Hinting: SingleFlightCoordinating {
        let hasPartial: Bool?

        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            keys.map { .lead(SingleFlight.Leader(key: $0, token: 1, hasPartial: hasPartial)) }
        }

        func wait(for flight: SingleFlight.Waiter) async {}
        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }
        func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {}
    }

    /// Without the hint, each fetch would cost a round trip for a lookup in vain.
    @Test(arguments: [nil, true, false] as [Bool?]) func aCoordinatorMayKnowThatNoPartIsStored(_ hint: Bool?)
        async throws
    {
        try await OriginServer.run(responding: site(100_000)) { (origin) async throws in
            let pipeline = worker {
                $0.dataCache = nil
                $0.resumableDataCache = cache
                $0.flights = Hinting(hasPartial: hint)
            }
            for _ in 0..<2 { #expect(await code(pipeline, origin.url("/a")) == .incompleteBody) }
            #expect(ranges.values == (hint == false ? ["", ""] : ["", "bytes=100000-"]))
        }
    }
}
