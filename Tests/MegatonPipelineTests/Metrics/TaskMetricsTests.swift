import Foundation
import MegatonPipelineTesting
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// The cost of a request at the origin and in queues. The tests compare no absolute times: a wait is longer than the
/// work done while it lasted.
@Suite(.timeLimit(.minutes(2))) struct TaskMetricsTests {
    private let png = TestPipeline.png
    private let inline = URL(string: "data:image/png;base64,\(TestPipeline.png.base64EncodedString())")!

    private func loader() -> DataLoader {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        return DataLoader(loader)
    }

    private func pipeline(_ change: (inout ImagePipeline.Configuration) -> Void = { _ in }) -> ImagePipeline {
        TestPipeline.make(loader(), change)
    }

    private func withOrigin(_ body: (OriginServer) async throws -> Void) async throws {
        let headers = [("Cache-Control", "no-cache"), ("ETag", "\"1\"")]
        try await OriginServer.run { [png] request in
            if request.path == "/none" { return OriginServer.Answer(status: 404) }
            if request.headers["if-none-match"] == "\"1\"" { return OriginServer.Answer(status: 304, headers: headers) }
            return .image(png, headers: headers)
        } _: { (server) async throws in
            try await body(server)
        }
    }

    /// The cost of an image that need not wait for anything.
    private func meanwhile() async throws -> Duration {
        let task = TestPipeline.make(HeldLoader(isHeld: false)).imageTask(with: inline)
        _ = try await task.response
        return try #require(task.metrics.total)
    }

    // MARK: - Timings

    @Test func theTimeOfTheOriginIsReported() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline { $0.imageCache = ImageCache() }
            let task = pipeline.imageTask(with: server.url("/a"))
            _ = try await task.response
            let timings = try #require(task.metrics.timings)
            #expect(timings.status == 200 && timings.bytes == png.count && timings.connects == 1)
            #expect(timings.httpVersion == "1.1" && timings.remoteAddress == "127.0.0.1")
            #expect(timings.firstByte > 0 && timings.total >= timings.firstByte)
            let load = try #require(task.metrics.load)
            #expect(load.inSeconds >= timings.total)
            let hit = pipeline.imageTask(with: server.url("/a"))
            _ = try await hit.response
            #expect(hit.metrics.timings == nil && hit.metrics.waits == QueueWaits())
            #expect(hit.metrics.cacheType == .memory && hit.metrics.cacheLayer == nil)
        }
    }

    @Test func aRevalidationAndAFailureAreReportedToo() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline { $0.dataCache = MemoryDataCache() }
            try await pipeline.prefetch(ImageRequest(url: server.url("/a")))
            let task = pipeline.imageTask(with: server.url("/a"))
            _ = try await task.response
            #expect(task.metrics.timings?.status == 304 && task.metrics.cacheLayer == nil)
            let failed = pipeline.imageTask(with: server.url("/none"))
            await #expect(throws: ImagePipeline.Error.self) { try await failed.response }
            #expect(failed.metrics.timings?.status == 404)
        }
    }

    @Test func decoratorsPassTheTimingsOn() async throws {
        let directory = try TestDirectory()
        let folder = URL(fileURLWithPath: directory.path)
        try await withOrigin { (server) async throws in
            let recorder = RecordingDataLoader(folder: folder, .record(RetryingDataLoader(loader())))
            let task = TestPipeline.make(recorder).imageTask(with: server.url("/a"))
            _ = try await task.response
            #expect(task.metrics.timings?.bytes == png.count)
            let replayed = TestPipeline.make(RecordingDataLoader(folder: folder, .replay))
                .imageTask(with: server.url("/a"))
            _ = try await replayed.response
            #expect(replayed.metrics.timings == nil && replayed.metrics.bytes == png.count)
        }
    }

    @Test func aTaskThatSharesALoadHasNoneOfItsCost() async throws {
        try await withOrigin { (server) async throws in
            server.hold()
            let pipeline = pipeline()
            let (one, other) = (pipeline.imageTask(with: server.url("/a")), pipeline.imageTask(with: server.url("/a")))
            await server.waitForRequests("/a", count: 1)
            server.release()
            _ = try await (one.response, other.response)
            #expect(one.metrics.timings != nil && one.metrics.waits.load > .zero)
            #expect(other.metrics.timings == nil && other.metrics.waits == QueueWaits())
        }
    }

    @Test func renditionsReportTheSame() async throws {
        try await withOrigin { (server) async throws in
            let (metrics, request) = (PipelineMetrics(), ImageRequest(url: server.url("/a")))
            let pipeline = pipeline()
            let wanted = [Rendition(width: 4, format: .png), Rendition(width: 8, format: .png)]
            _ = try await pipeline.renditions(wanted, for: request, metrics: metrics)
            #expect(metrics.timings?.status == 200 && metrics.timings?.bytes == png.count)
            #expect(metrics.waits.load > .zero && metrics.waits.decode > .zero)
            #expect(metrics.waits.memory == .zero)
        }
    }

    // MARK: - Queues

    @Test func theWaitForAPlaceAmongTheFetches() async throws {
        try await withOrigin { (server) async throws in
            let pipeline = pipeline { $0.fetchConcurrency = 1 }
            server.hold()
            let first = pipeline.imageTask(with: server.url("/a"))
            await server.waitForRequests("/a", count: 1)
            let second = pipeline.imageTask(with: server.url("/b"))
            while pipeline.originals.fetches.pendingCount == 0, !Task.isCancelled { await Task.yield() }
            let meanwhile = try await meanwhile()
            server.release()
            _ = try await (first.response, second.response)
            let metrics = second.metrics
            #expect(metrics.waits.load > meanwhile)
            #expect(metrics.load.map { $0 > metrics.waits.load } == true)
        }
    }

    @Test func theWaitForTheRateLimiter() async throws {
        let clock = ManualClock()
        let limiter = RateLimiter(rate: 1, burst: 1, clock: clock)
        try await withOrigin { (server) async throws in
            let pipeline = pipeline { $0.rateLimiter = limiter }
            _ = try await pipeline.image(for: server.url("/a"))
            let second = pipeline.imageTask(with: server.url("/b"))
            await clock.waitForSleepers(1)
            let meanwhile = try await meanwhile()
            clock.advance(by: .seconds(1))
            _ = try await second.response
            #expect(second.metrics.waits.load > meanwhile)
        }
    }

    @Test func theWaitForAThread() async throws {
        let pipeline = pipeline()
        pipeline.renders.isSuspended = true
        let steps = ImageRequest(url: inline, processors: [TestProcessor(identifier: "step")])
        let task = pipeline.imageTask(with: steps)
        while pipeline.renders.pendingCount == 0, !Task.isCancelled { await Task.yield() }
        let meanwhile = try await meanwhile()
        pipeline.renders.isSuspended = false
        _ = try await task.response
        let metrics = task.metrics
        #expect(metrics.waits.decode > meanwhile)
        #expect(metrics.decode.map { $0 > metrics.waits.decode } == true)
        #expect(metrics.waits.process > .zero)
        #expect(metrics.process.map { $0 > metrics.waits.process } == true)
        #expect(metrics.waits.load == .zero && metrics.waits.memory == .zero)
    }

    @Test(arguments: [true, false]) func theWaitForMemory(isImage: Bool) async throws {
        let budget = MemoryBudget(bytes: 64 << 20)
        let all = RenderCost(bytes: budget.bytes, isBuffered: false)
        let pipeline = pipeline { $0.memoryBudget = budget }
        try #require(try budget.tryAcquire(all))
        let metrics = PipelineMetrics()
        async let waits = {
            if isImage {
                let task = pipeline.imageTask(with: inline)
                _ = try await task.response
                return task.metrics.waits
            }
            let wanted = [Rendition(width: 4, format: .png)]
            _ = try await pipeline.renditions(wanted, for: ImageRequest(url: inline), metrics: metrics)
            return metrics.waits
        }()
        while budget.counts.waiting == 0, !Task.isCancelled { await Task.yield() }
        let meanwhile = try await meanwhile()
        budget.release(all)
        #expect(try await waits.memory > meanwhile)
    }

    @Test func aWaitThatIsGivenUpCountsToo() async throws {
        let pipeline = pipeline()
        pipeline.renders.isSuspended = true
        let task = pipeline.imageTask(with: inline)
        while pipeline.renders.pendingCount == 0, !Task.isCancelled { await Task.yield() }
        let meanwhile = try await meanwhile()
        task.cancel()
        while task.metrics.waits.decode == .zero, !Task.isCancelled { await Task.yield() }
        #expect(task.metrics.waits.decode > meanwhile)
    }
}
