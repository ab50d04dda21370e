import Foundation
import FoundationNetworking
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonPipeline

/// Pipelines that share a cache and an origin that cuts downloads off: what one has begun another one ends.
@Suite(.timeLimit(.minutes(2))) struct ResumedLoadTests {
    /// Three times what is worth being kept, and begins as a PNG does.
    private static let body =
        Data([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
        + Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })

    /// What each request sent as `Range`; empty where it sent none.
    private let ranges = TestLog<String>()
    private let cache = CountingDataCache()

    /// Gives so many bytes an answer at the most, and cuts it off then.
    ///
    /// - Parameters:
    ///   - shift: by how much the part that is given is beside what was asked for.
    ///   - stalls: the rest does not come, but the connection stays.
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

    /// One of the workers: their caches are one.
    private func worker(
        delegate: (any ImagePipeline.Delegate)? = nil,
        _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
    ) -> ImagePipeline {
        PipelineProbe(cache, delegate: delegate, change).pipeline
    }

    private func code(_ pipeline: ImagePipeline, _ url: URL) async -> ImagePipeline.Error.Code? {
        await TestPipeline.code { try await pipeline.data(for: url) }
    }

    // MARK: - Going on

    /// B 45 and R1: cut off twice, and each byte came once; another worker goes on each time.
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

    /// B 47: the first progress of a resumed download is above what was there.
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

    /// The delegate has the last word: it sees what is asked for.
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

    // Fault: what a delegate's token had opened was left for others, who need not have one (RFC 9111 section 3.5).
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

    // MARK: - Being cancelled

    /// Who gives up leaves what has come to the next.
    @Test func aCancelledDownloadLeavesWhatHasCome() async throws {
        try await OriginServer.run(responding: site(stalls: true, 100_000)) { (origin) async throws in
            let url = origin.url("/a")
            let task = worker().imageTask(with: url)
            for await progress in task.progress where progress.completed == 100_000 { task.cancel() }
            let partial = try await self.partial()
            #expect(partial.data == Self.body.prefix(100_000))
        }
    }

    /// B 48: cancelled before the origin has answered.
    @Test func whatIsKeptSurvivesACancellationBeforeTheAnswer() async throws {
        try await OriginServer.run(responding: site(100_000)) { (origin) async throws in
            let url = origin.url("/a")
            #expect(await code(worker(), url) == .incompleteBody)
            origin.hold()
            let pipeline = worker()
            let task = pipeline.imageTask(with: url)
            await origin.waitForRequests("/a", count: 2)
            task.cancel()
            #expect(await TestPipeline.code { try await task.response } == .cancelled)
            // The download has said its last word when its place is free.
            while pipeline.originals.fetches.runningCount > 0, !Task.isCancelled { await Task.yield() }
            let partial = try #require(cache.partials.first.flatMap { ResumableData(encoded: $0) })
            #expect(partial.data == Self.body.prefix(100_000))
        }
    }

    /// A process that is killed says nothing at its end: what has come is kept while more is awaited.
    @Test func whatHasComeIsKeptWhileMoreIsAwaited() async throws {
        try await OriginServer.run(responding: site(stalls: true, 200_000)) { (origin) async throws in
            let task = worker { $0.resumableDataInterval = .zero }.imageTask(with: origin.url("/a"))
            let partial = try await self.partial()
            #expect(partial.data.count >= 64 * 1024 && Self.body.starts(with: partial.data))
            #expect(task.status.result == nil, "it is still under way")
            task.cancel()
        }
    }

    /// What the cache has, as soon as it has something.
    private func partial() async throws -> ResumableData {
        while cache.partials.isEmpty {
            try Task.checkCancellation()
            await Task.yield()
        }
        return try #require(cache.partials.first.flatMap { ResumableData(encoded: $0) })
    }

    // MARK: - Not going on

    /// R2: the picture has changed meanwhile, and comes as a whole.
    @Test func aChangedPictureIsLoadedAsAWhole() async throws {
        let site = [self.site(100_000), self.site(tag: "\"2\"", 1_000_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            let (data, _) = try await worker().data(for: origin.url("/a"))
            #expect(data == Self.body && ranges.values == ["", "bytes=100000-"] && cache.partials.isEmpty)
        }
    }

    /// R2: and may have another length.
    @Test func aChangedPictureMayHaveAnotherLength() async throws {
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

    /// R2: the picture has changed, and is cut off after as many bytes: those of the new one are what is kept.
    @Test func aChangedPictureIsKeptInPlaceOfAsMuchOfTheOldOne() async throws {
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

    /// R2: the same while more is awaited, where less has come than there was of the old one.
    @Test func aChangedPictureIsKeptWhileMoreIsAwaited() async throws {
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

    /// R2: a part that is another one than was asked for is never joined.
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

    /// R4: an origin that has nothing more to give beyond that point is asked for all, once.
    @Test func aRefusedRangeIsAskedForOnce() async throws {
        let site = [self.site(200_000), self.site(tag: "\"2\"", refuses: true, 200_000)]
        try await OriginServer.run(
            responding: { [ranges] in site[min(1, ranges.values.count)]($0) }
        ) { (origin) async throws in
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            // All of it is cut off again, and what has come this time is kept anew.
            #expect(await code(worker(), origin.url("/a")) == .incompleteBody)
            #expect(ranges.values == ["", "bytes=200000-", ""] && cache.partials.count == 1)
            #expect(cache.partials.first.flatMap { ResumableData(encoded: $0) }?.validator == "\"2\"")
        }
    }

    /// B 46 and R3: without a strong validator, or where the origin gives no parts, nothing is kept.
    @Test(arguments: ["W/\"1\"", "none"]) func whatCannotBeResumedIsBegunAnew(_ what: String) async throws {
        let isWeak = what != "none"
        let more = isWeak ? [("Accept-Ranges", "bytes")] : [("Accept-Ranges", what)]
        let site = self.site(tag: isWeak ? what : "\"1\"", more: more, 100_000)
        try await OriginServer.run(responding: site) { (origin) async throws in
            for _ in 0..<2 { #expect(await code(worker(), origin.url("/a")) == .incompleteBody) }
            #expect(ranges.values == ["", ""] && cache.partials.isEmpty)
        }
    }

    /// What nobody wants kept is not kept in parts either.
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

    /// Lets everybody lead, and says of what was left behind what it is told to say.
    private struct Hinting: FlightCoordinating {
        let hasPartial: Bool?

        func begin(_ keys: [CacheKey], after waits: [FlightWait]) async -> [FlightDecision] {
            keys.map { .lead(FlightLead(key: $0, token: 1, hasPartial: hasPartial)) }
        }

        func wait(for flight: FlightWait) async {}
        func finish(_ entries: [(lead: FlightLead, entry: CachedData?)]) async -> Set<CacheKey> { [] }
        func fail(_ leads: [FlightLead], error: ImagePipeline.Error) async {}
    }

    /// A look in vain would cost each fetch a round trip.
    @Test(arguments: [nil, true, false] as [Bool?]) func whoGivesTheLeadMayKnowThatNothingIsLeft(_ hint: Bool?)
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
