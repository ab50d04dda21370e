import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// `renditions(_:for:)` observes the request's options and priority.
@Suite(.timeLimit(.minutes(2))) struct RenditionOptionTests {
    private let image = TestImage.quarters(width: 64, height: 64)
    private let small = Rendition(width: 32, height: 32, format: .png)
    private let tiny = Rendition(width: 16, height: 16, format: .png)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    // MARK: - Options

    @Test func aReloadReadsNoCache() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let url = origin.url("/a")
            _ = try await probe.pipeline.renditions([small], for: probe.request(url))
            probe.cache.forgetCounts()
            let reload = probe.request(url, options: .reloadIgnoringCachedData)
            #expect(try await probe.pipeline.renditions([small], for: reload)[0].source == .render)
            #expect(origin.total == 2 && probe.cache.lookups.isEmpty)
            #expect(probe.cache.writes.count == 2, "the original and the rendition are kept anew")
            #expect(try await probe.pipeline.renditions([small], for: probe.request(url))[0].source == .cache)
        }
    }

    @Test func aRequestThatDisablesWritesStoresNothing() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let url = origin.url("/a")
            let silent = probe.request(url, options: .disableDiskCacheWrites)
            _ = try await probe.pipeline.renditions([small], for: silent)
            #expect(probe.cache.writes.isEmpty)
            #expect(probe.cache.lookups.map(\.count) == [1, 2])
            _ = try await probe.pipeline.renditions([small], for: probe.request(url))
            #expect(try await probe.pipeline.renditions([small], for: silent)[0].source == .cache)
            #expect(origin.total == 2)
        }
    }

    @Test func aRequestForCachedDataGetsCachedRenditions() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let url = origin.url("/a")
            let kept = probe.request(url, options: .returnCacheDataDontLoad)
            func code(_ rendition: Rendition) async -> ImagePipeline.Error.Code? {
                await TestPipeline.code { try await probe.pipeline.renditions([rendition], for: kept) }
            }
            #expect(await code(small) == .dataMissingInCache)
            await probe.keepOriginal(image, of: kept)
            #expect(try await probe.pipeline.renditions([small], for: kept)[0].source == .render)
            #expect(try await probe.pipeline.renditions([small], for: kept)[0].source == .cache)
            await probe.pipeline.cache.removeCachedData(for: probe.request(url))
            #expect(await code(tiny) == .dataMissingInCache)
            #expect(await code(small) == nil)
            #expect(origin.total == 0)
        }
    }

    /// A request does not join work whose options allow less.
    @Test func differentOptionsAreDifferentWork() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            origin.hold()
            let url = origin.url("/a")
            let plain = probe.request(url)
            let first = Task { try await probe.pipeline.renditions([small], for: plain) }  // Awaited below.
            await origin.waitForRequests("/a", count: 1)
            let kept = probe.request(url, options: .returnCacheDataDontLoad)
            let code = await TestPipeline.code { try await probe.pipeline.renditions([small], for: kept) }
            #expect(code == .dataMissingInCache)
            origin.release()
            #expect(try await first.value.count == 1 && origin.total == 1)
        }
    }

    @Test func aClosureNeedNotWait() async throws {
        let probe = PipelineProbe()
        let fetches = probe.pipeline.originals.fetches
        fetches.isSuspended = true
        let request = ImageRequest(id: "a", data: { [image] in image }, options: .skipDataLoadingQueue)
        #expect(try await probe.pipeline.renditions([small], for: request).count == 1)
        #expect(fetches.pendingCount == 0)
    }

    /// One lookup for all of them, and one for the original, under its own key and under the key that variants share.
    @Test func allAreLookedUpAtOnce() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            for options in [[], ImageRequest.Options.disableDiskCacheWrites] {
                probe.cache.forgetCounts()
                let request = probe.request(origin.url("/\(options.rawValue)"), options: options)
                _ = try await probe.pipeline.renditions([small, tiny], for: request)
                #expect(probe.cache.lookups.map(\.count) == [2, 2])
            }
        }
    }

    // MARK: - Priority

    @Test func joiningRaisesThePriorityOfTheFetch() async throws {
        let paths = try await FetchOrder.paths { probe, origin in
            let queue = probe.pipeline.originals.fetches
            func start(_ path: String, _ priority: ImageRequest.Priority) -> Task<Void, any Error> {
                var request = probe.request(origin.url(path))
                request.priority = priority
                // Each is awaited below.
                return Task { [request] in _ = try await probe.pipeline.renditions([small], for: request) }
            }
            let low = start("/a", .low)
            while queue.pendingCount < 1, !Task.isCancelled { await Task.yield() }
            let normal = start("/b", .normal)
            while queue.pendingCount < 2, !Task.isCancelled { await Task.yield() }
            let high = start("/a", .high)
            while probe.pipeline.groups.subscriberCount < 3, !Task.isCancelled { await Task.yield() }
            return [low, normal, high].map { task in { try await task.value } }
        }
        #expect(paths == ["/first", "/a", "/b"])
    }

    @Test func theMostUrgentIsRenderedFirst() async throws {
        let probe = PipelineProbe { $0.renderConcurrency = 1 }
        let queue = probe.pipeline.renders
        let gate = TaskTestGate()
        queue.enqueue { await gate.pass() }
        await gate.begun.value
        let tasks = [ImageRequest.Priority.low, .high].map { priority in
            let request = ImageRequest(id: "\(priority)", data: { [image] in image }, priority: priority)
            return Task { try await probe.pipeline.renditions([small], for: request) }  // Awaited below.
        }
        while queue.pendingCount < 2, !Task.isCancelled { await Task.yield() }
        // Pending entries when it is the turn of a priority between the two: the low one alone.
        let left = Promise<Int>()
        queue.enqueue(priority: .normal) { left.resolve(queue.pendingCount) }
        gate.open.resolve(())
        #expect(await left.value == 1)
        for task in tasks { #expect(try await task.value.count == 1) }
    }
}
