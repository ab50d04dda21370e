import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Images are decoded once there is memory for them.
@Suite(.timeLimit(.minutes(2))) struct ImageMemoryTests {
    private let png = TestPipeline.png
    private let cost: RenderCost
    private let budget: MemoryBudget

    init() throws {
        cost = try ImageDecoders.Default().plan(TestPipeline.png).cost
        budget = MemoryBudget(bytes: cost.bytes)
    }

    @Test func anImageWaitsForMemory() async throws {
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false)) { $0.memoryBudget = budget }
        try #require(try budget.tryAcquire(cost))
        let task = pipeline.imageTask(with: TestPipeline.url)
        while budget.counts.waiting == 0, !Task.isCancelled { await Task.yield() }
        #expect(task.status.result == nil)
        budget.release(cost)
        #expect(try await task.image.size == PixelSize(width: 16, height: 8))
        #expect(budget.counts.bytesInUse == 0)
    }

    // Fault: an image held its slot while it waited for memory, and a rendition its memory while it waited for a slot.
    @Test func imagesAndRenditionsDoNotWaitForEachOther() async throws {
        let rendition = Rendition(width: 8)
        let plan = try RenderPlan(probing: png, .png, [rendition], VipsEngine(), RenderLimits())
        let cost = RenderCost(bytes: max(cost.bytes, plan.cost.bytes), isBuffered: false)
        // Room for only one of the two at a time.
        let budget = MemoryBudget(bytes: cost.bytes)
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false)) {
            $0.memoryBudget = budget
            $0.renderConcurrency = 1
        }
        try #require(try budget.tryAcquire(cost))
        async let renditions = pipeline.renditions([rendition], for: ImageRequest(url: TestPipeline.url))
        while budget.counts.waiting < 1, !Task.isCancelled { await Task.yield() }
        async let image = pipeline.image(for: TestPipeline.url)
        while budget.counts.waiting < 2, !Task.isCancelled { await Task.yield() }
        budget.release(cost)
        #expect(try await image.size == PixelSize(width: 16, height: 8))
        #expect(try await renditions.count == 1)
        // A result is delivered before its slot is free again, so that callers need not wait for the slot.
        while pipeline.renders.runningCount > 0, !Task.isCancelled { await Task.yield() }
        #expect(budget.counts.bytesInUse == 0)
    }

    @Test func anImageThatCostsTooMuchIsRefused() async {
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false)) {
            $0.memoryBudget = MemoryBudget(bytes: cost.bytes - 1)
        }
        let error = await TestPipeline.failure { try await pipeline.image(for: TestPipeline.url) }
        #expect(error?.code == .tooCostly && error?.stage == .decode)
        #expect(error?.url == TestPipeline.url.absoluteString)
    }

    @Test func aCachedImageWaitsForMemoryToo() async throws {
        let probe = PipelineProbe {
            $0.makeImageDecoder = nil
            $0.memoryBudget = budget
        }
        let request = probe.request(TestPipeline.url)
        await probe.keepOriginal(png, of: request)
        try #require(try budget.tryAcquire(cost))
        let cache = probe.pipeline.cache
        async let image = cache.cachedImage(for: request, caches: .disk)
        while budget.counts.waiting == 0, !Task.isCancelled { await Task.yield() }
        budget.release(cost)
        #expect(await image?.image.size == PixelSize(width: 16, height: 8))
    }

    // Fault: when a caller cancelled while a cached image was decoded, the entry was removed.
    @Test(arguments: [[], ["step"]]) func aCachedEntryStaysIfNoRequestWaits(_ steps: [String]) async throws {
        let probe = PipelineProbe {
            $0.makeImageDecoder = nil
            $0.memoryBudget = budget
        }
        let request = probe.request(TestPipeline.url, steps)
        let key = steps.isEmpty ? CacheKey.original(of: request) : probe.pipeline.dataCacheKey(for: request)
        await probe.keep(png, for: key)
        try #require(try budget.tryAcquire(cost))
        let task = probe.pipeline.imageTask(with: request)
        while budget.counts.waiting == 0, !Task.isCancelled { await Task.yield() }
        task.cancel()
        while budget.counts.waiting > 0 || probe.pipeline.renders.runningCount > 0, !Task.isCancelled {
            await Task.yield()
        }
        await probe.settle()
        #expect(probe.cache.entries[key.description] != nil)
    }
}
