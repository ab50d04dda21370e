import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Cache directives of requests: RFC 9111 section 5.2.1, and `URLRequest.cachePolicy`.
@Suite(.timeLimit(.minutes(2))) struct RequestDirectiveTests {
    private let image = TestImage.quarters(width: 64, height: 64)
    private let small = Rendition(width: 32, height: 32, format: .png)

    /// An origin with one image, which records conditional requests.
    private struct Site {
        let server: OriginServer
        /// `If-None-Match` of each request, or an empty text.
        let conditions: TaskTestBox<[String]>
        /// Status to respond with in place of the image, once it is set.
        let status: TaskTestBox<Int?>

        var total: Int { conditions.value.count }

        func request(_ control: String? = nil, _ policy: URLRequest.CachePolicy = .useProtocolCachePolicy)
            -> ImageRequest
        {
            var request = URLRequest(url: server.url("/a"), cachePolicy: policy)
            if let control { request.setValue(control, forHTTPHeaderField: "Cache-Control") }
            return ImageRequest(urlRequest: request)
        }
    }

    private func run(_ control: String = "max-age=3600", _ body: (Site) async throws -> Void) async throws {
        let (conditions, status) = (TaskTestBox<[String]>([]), TaskTestBox<Int?>(nil))
        try await OriginServer.run(responding: { [image] request in
            let condition = request.headers["if-none-match"] ?? ""
            conditions.withLock { $0.append(condition) }
            if let status = status.value { return OriginServer.Answer(status: status) }
            let headers = [("Cache-Control", control), ("ETag", "\"1\"")]
            if condition == "\"1\"" { return OriginServer.Answer(status: 304, headers: headers) }
            return .image(image, headers: headers)
        }) { (server) async throws in
            try await body(Site(server: server, conditions: conditions, status: status))
        }
    }

    private func code<Value>(_ body: () async throws -> Value) async -> ImagePipeline.Error.Code? {
        await TestPipeline.code(body)
    }

    // MARK: - Originals

    /// Fault: nothing said why a source was fetched for each job.
    @Test func aResponseThatIsNotStoredHasANote() async throws {
        for (control, count) in [("no-store", 1), ("max-age=60", 0)] {
            try await run(control) { (site) async throws in
                let metrics = PipelineMetrics()
                let pipeline = PipelineProbe().pipeline
                _ = try await pipeline.renditions([small], for: site.request(), metrics: metrics)
                let notes = metrics.notes.filter { $0.hasPrefix("not stored in the cache: the origin forbids it") }
                #expect(notes.count == count, "\(control): \(metrics.notes)")
            }
        }
    }

    @Test(arguments: ["no-cache", "max-age=0", "max-age=x", "min-fresh=7200"])
    func anEntryThatARequestRefusesIsRevalidatedAndStaysForOthers(_ control: String) async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            for directives in [nil, control, nil] {
                #expect(try await pipeline.data(for: site.request(directives)).data == image)
            }
            #expect(site.conditions.value == ["", "\"1\""], "it had a validator, and was still good for the last one")
        }
    }

    @Test(arguments: ["max-age=3600", "min-fresh=60", "only-if-cached", "max-stale", "no-store"])
    func anEntryThatARequestAcceptsIsAHit(_ control: String) async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            for directives in [nil, control] {
                #expect(try await pipeline.data(for: site.request(directives)).data == image)
            }
            #expect(site.total == 1)
        }
    }

    @Test func oldClientsArePragmatic() async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            _ = try await pipeline.data(for: site.request())
            var request = site.request()
            request.headers = ["pragma": "no-cache"]
            _ = try await pipeline.data(for: request)
            #expect(site.conditions.value == ["", "\"1\""])
        }
    }

    /// The outcome that HTTP expresses as 504 (section 5.2.1.7).
    @Test(arguments: ["only-if-cached", "only-if-cached, no-cache"])
    func onlyIfCachedNeverAsksTheOrigin(_ control: String) async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            let request = site.request(control)
            #expect(await code { try await pipeline.data(for: request) } == .dataMissingInCache)
            #expect(await code { try await pipeline.image(for: request) } == .dataMissingInCache)
            #expect(await code { try await pipeline.renditions([small], for: request) } == .dataMissingInCache)
            #expect(site.total == 0)
            _ = try await pipeline.data(for: site.request())
            let expected: ImagePipeline.Error.Code? = control == "only-if-cached" ? nil : .dataMissingInCache
            #expect(await code { try await pipeline.data(for: request) } == expected)
            _ = try await pipeline.data(for: site.request())
            #expect(site.total == 1)
        }
    }

    @Test func aRequestForCachedDataDoesNotWaitForADownload() async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            site.server.hold()
            let first = Task { try await pipeline.data(for: site.request()).data }  // Awaited below.
            await site.server.waitForRequests("/a", count: 1)
            let request = site.request("only-if-cached")
            #expect(await code { try await pipeline.data(for: request) } == .dataMissingInCache)
            site.server.release()
            #expect(try await first.value == image)
        }
    }

    @Test func aReloadTakesThePlaceOfWhatWasThere() async throws {
        let other = TestImage.quarters(width: 32, height: 32)
        let isOther = TaskTestBox(false)
        try await OriginServer.run(answer: { [image] _ in
            .image(isOther.value ? other : image, headers: [("Cache-Control", "max-age=3600"), ("ETag", "\"1\"")])
        }) { (origin) async throws in
            let pipeline = PipelineProbe().pipeline
            let plain = ImageRequest(url: origin.url("/a"))
            _ = try await pipeline.data(for: plain)
            isOther.withLock { $0 = true }
            #expect(try await pipeline.data(for: plain).data == image)
            var request = URLRequest(url: origin.url("/a"))
            request.cachePolicy = .reloadIgnoringLocalCacheData
            #expect(try await pipeline.data(for: ImageRequest(urlRequest: request)).data == other)
            #expect(try await pipeline.data(for: plain).data == other)
            #expect(origin.total == 2)
        }
    }

    @Test func revalidatingIsAskingWithACondition() async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            for policy in [URLRequest.CachePolicy.useProtocolCachePolicy, .reloadRevalidatingCacheData] {
                #expect(try await pipeline.data(for: site.request(nil, policy)).data == image)
            }
            #expect(site.conditions.value == ["", "\"1\""])
        }
    }

    /// For an entry that is stale at once.
    @Test(
        arguments: [
            (nil, .returnCacheDataElseLoad, false), (nil, .returnCacheDataDontLoad, false),
            ("max-stale=3600", .useProtocolCachePolicy, false), ("max-stale", .useProtocolCachePolicy, false),
            ("max-stale=x", .useProtocolCachePolicy, true), ("no-cache, max-stale", .useProtocolCachePolicy, true),
            (nil, .useProtocolCachePolicy, true),
        ] as [(String?, URLRequest.CachePolicy, Bool)]
    )
    func aRequestMayAcceptAStaleEntry(_ control: String?, _ policy: URLRequest.CachePolicy, _ asks: Bool) async throws {
        try await run("max-age=0") { (site) async throws in
            let probe = PipelineProbe()
            _ = try await probe.pipeline.data(for: site.request())
            #expect(try await probe.pipeline.data(for: site.request(control, policy)).data == image)
            #expect(site.conditions.value == (asks ? ["", "\"1\""] : [""]))
            let metrics = PipelineMetrics()
            _ = try await probe.pipeline.prefetch(site.request(control, policy), metrics: metrics)
            #expect(metrics.counts.staleHits == (asks ? 0 : 1))
        }
    }

    @Test func anEntryThatMustNotBeStaleIsNotServed() async throws {
        try await run("max-age=0, must-revalidate") { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            for control in [nil, "max-stale"] { _ = try await pipeline.data(for: site.request(control)) }
            #expect(site.conditions.value == ["", "\"1\""])
        }
    }

    /// `no-store`: nothing is stored, and entries for other requests stay.
    @Test func aRequestThatForbidsStoringLeavesOtherEntries() async throws {
        try await run("max-age=0") { (site) async throws in
            let probe = PipelineProbe()
            let request = site.request("no-store")
            _ = try await probe.pipeline.image(for: request)
            _ = try await probe.pipeline.renditions([small], for: request)
            await probe.settle()
            #expect(probe.cache.writes.isEmpty && probe.memory.writes.isEmpty)
            _ = try await probe.pipeline.data(for: site.request())
            let kept = probe.cache.entries
            _ = try await probe.pipeline.data(for: request)
            _ = try await probe.pipeline.renditions([small], for: request)
            #expect(probe.cache.entries == kept && kept.count == 1)
            #expect(site.conditions.value == ["", "", "", "\"1\"", "\"1\""])
        }
    }

    @Test func aRefusedEntryIsNoAnswerToAFailure() async throws {
        try await run("max-age=3600, stale-if-error=3600") { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            _ = try await pipeline.renditions([small], for: site.request())
            site.status.withLock { $0 = 503 }
            let request = site.request("no-cache")
            #expect(await code { try await pipeline.data(for: request) } == .httpStatus)
            #expect(await code { try await pipeline.renditions([small], for: request) } == .httpStatus)
            #expect(try await pipeline.data(for: site.request()).data == image)
            #expect(try await pipeline.renditions([small], for: site.request())[0].source == .cache)
            site.status.withLock { $0 = 404 }
            #expect(await code { try await pipeline.renditions([small], for: request) } == .notFound)
            #expect(await code { try await pipeline.renditions([small], for: site.request()) } == .notFound)
        }
    }

    // MARK: - Images and renditions

    @Test func imagesAreAskedAboutToo() async throws {
        try await run { (site) async throws in
            let probe = PipelineProbe()
            var plain = site.request()
            plain.processors = [CountingProcessor(id: "1", counts: probe.counts)]
            _ = try await probe.pipeline.image(for: plain)
            await probe.settle()
            func type(_ control: String) async throws -> ImageResponse.CacheType? {
                var request = site.request(control)
                request.processors = plain.processors
                return try await probe.pipeline.imageTask(with: request).response.cacheType
            }
            #expect(try await type("max-age=3600") == .memory)
            #expect(site.total == 1)
            #expect(try await type("no-cache") == nil)
            #expect(site.conditions.value == ["", "\"1\""])
            probe.pipeline.cache[plain] = nil
            #expect(try await type("only-if-cached") == .disk)
            #expect(try await type("min-fresh=7200") == nil)
            #expect(site.total == 3)
            #expect(try await probe.pipeline.imageTask(with: plain).response.cacheType == .memory)
        }
    }

    /// An image in memory has an age, unless the program stored it.
    @Test func anImageInMemoryHasAnAge() async throws {
        try await run { (site) async throws in
            let probe = PipelineProbe()
            probe.pipeline.cache[site.request()] = try TestPipeline.container()
            for control in ["only-if-cached", "max-stale"] {
                let response = try await probe.pipeline.imageTask(with: site.request(control)).response
                #expect(response.cacheType == .memory)
            }
            for control in ["max-age=3600", "no-cache"] {
                let response = try await probe.pipeline.imageTask(with: site.request(control)).response
                #expect(response.cacheType != .memory)
            }
        }
        let made = Date(timeIntervalSince1970: 1_000_000)
        var metadata = CachedData.Metadata(lifetime: 100)
        metadata.age = 10
        let provenance = ImageProvenance(metadata, since: made)
        let fresh = try #require(provenance.entry(at: made + 60))
        #expect(fresh.metadata.lifetime == 40 && fresh.metadata.currentAge(at: made + 60) == 70)
        #expect(fresh.staleness == nil)
        #expect(provenance.entry(at: made + 130)?.staleness == 30)
        #expect(ImageProvenance(nil).entry() == nil)
    }

    @Test func renditionsAreConfirmedAndNotMadeAgain() async throws {
        try await run { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            let first = try await pipeline.renditions([small], for: site.request())[0]
            let metrics = PipelineMetrics()
            let again = try await pipeline.renditions([small], for: site.request("no-cache"), metrics: metrics)[0]
            #expect(again.data == first.data && again.source == .cache)
            #expect(metrics.counts.revalidations == 1 && metrics.counts.renders == 0 && metrics.counts.bytesIn == 0)
            _ = try await pipeline.renditions([small], for: site.request("max-age=60"))
            _ = try await pipeline.renditions([small], for: site.request())
            #expect(site.conditions.value == ["", "\"1\""])
            _ = try await pipeline.renditions([small], for: site.request(nil, .reloadIgnoringLocalCacheData))
            #expect(site.conditions.value == ["", "\"1\"", ""])
        }
    }

    @Test func aStaleRenditionMayBeEnough() async throws {
        try await run("max-age=0") { (site) async throws in
            let pipeline = PipelineProbe().pipeline
            _ = try await pipeline.renditions([small], for: site.request())
            let metrics = PipelineMetrics()
            _ = try await pipeline.renditions([small], for: site.request("max-stale"), metrics: metrics)
            #expect(metrics.counts.staleHits == 1 && site.total == 1)
        }
    }
}
