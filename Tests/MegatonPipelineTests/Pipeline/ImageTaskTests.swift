import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct ImageTaskTests {
    private let url = TestPipeline.url

    private func texts(_ events: AsyncStream<ImageTask.Event>) async -> [String] {
        await events.reduce(into: []) { $0.append($1.text) }
    }

    // MARK: - Cancellation

    // Nuke's cancelImmediately.
    @Test func aTaskThatIsCancelledAtOnceEndsSo() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let task = pipeline.imageTask(with: url)
        task.cancel()
        #expect(await TestPipeline.code { try await task.response } == .cancelled)
        #expect(task.status.isCancelled)
        #expect(pipeline.tasks.count == 0)
        while pipeline.images.count > 0, !Task.isCancelled { await Task.yield() }
    }

    // Nuke's cancelFromTaskCreated: no work is started.
    @Test func aDelegateMayCancelATaskThatItIsShown() async {
        let loader = HeldLoader()
        let delegate = TestDelegate { $0.created = { $0.cancel() } }
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        #expect(await TestPipeline.code { try await pipeline.image(for: url) } == .cancelled)
        #expect(delegate.events.values == ["1 created", "1 cancelled"])
        #expect(loader.requests.count == 0)
        #expect(pipeline.images.count == 0)
        #expect(pipeline.tasks.count == 0)
    }

    private final class HastyDelegate: ImagePipeline.Delegate {
        func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline) {
            if case .started = event { task.cancel() }
        }
    }

    // Also while the delegate handles the start of the task.
    @Test func aDelegateMayCancelATaskThatHasJustStarted() async {
        let pipeline = TestPipeline.make(HeldLoader(), delegate: HastyDelegate())
        #expect(await TestPipeline.code { try await pipeline.image(for: url) } == .cancelled)
        #expect(pipeline.images.count == 0 && pipeline.tasks.count == 0)
    }

    // Cancelling while bytes arrive cancels the loader.
    @Test func cancellingCancelsTheLoad() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let task = pipeline.imageTask(with: url)
        await loader.requests.wait(for: 1)
        task.cancel()
        #expect(await TestPipeline.code { try await task.image } == .cancelled)
        await loader.cancels.wait(for: 1)
    }

    // Nuke's cancellingTwiceIsIdempotent.
    @Test func cancellingTwiceIsCancellingOnce() async {
        let delegate = TestDelegate()
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        let task = pipeline.imageTask(with: url)
        await loader.requests.wait(for: 1)
        task.cancel()
        task.cancel()
        _ = await TestPipeline.code { try await task.response }
        task.cancel()
        #expect(delegate.events.values == ["1 created", "1 started", "1 cancelled"])
        await loader.cancels.wait(for: 1)
        #expect(loader.cancels.count == 1)
    }

    // Nuke's cancellingAFinishedTaskDoesNotChangeItsState.
    @Test func aFinishedTaskStaysFinished() async throws {
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false), delegate: delegate)
        let task = pipeline.imageTask(with: url)
        _ = try await task.response
        let count = delegate.events.count
        task.cancel()
        #expect(!task.status.isCancelled)
        #expect(try await task.image.size == PixelSize(width: 16, height: 8))
        #expect(delegate.events.count == count)
    }

    // Cancelling a Swift task that waits cancels the image task, also for other waiters.
    @Test func cancellingOneWaiterCancelsTheTask() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let task = pipeline.imageTask(with: url)
        let one = Task { try await task.response }  // Awaited below.
        let other = Task { try await task.response }  // Awaited below.
        await loader.requests.wait(for: 1)
        one.cancel()
        #expect(await TestPipeline.code { try await one.value } == .cancelled)
        #expect(await TestPipeline.code { try await other.value } == .cancelled)
        await loader.cancels.wait(for: 1)
    }

    // Work that another task shares goes on.
    @Test func cancellingOneOfTwoLeavesTheLoadAlone() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let (one, other) = (pipeline.imageTask(with: url), pipeline.imageTask(with: url))
        await loader.requests.wait(for: 1)
        one.cancel()
        loader.release()
        #expect(try await other.image.size.width == 16)
        #expect(await TestPipeline.code { try await one.image } == .cancelled)
        #expect(loader.requests.count == 1)
        #expect(loader.cancels.count == 0)
    }

    // MARK: - Lifetime

    // Nuke's taskIsRemovedWhen…, for each way in which a task ends.
    @Test func noTaskIsLeftBehindHoweverItEnds() async throws {
        let delegate = TestDelegate()
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader, delegate: delegate) {
            $0.imageCache = ImageCache()
            $0.dataCache = MemoryDataCache()
        }
        let nothing = TestProcessor(identifier: "nothing") { _ in nil }
        let local: @Sendable () async throws -> Data = { Data("no picture".utf8) }
        _ = try await pipeline.image(for: url)
        _ = try await pipeline.image(for: url)
        // The entry is stored after the response is delivered.
        while await !pipeline.cache.containsData(for: ImageRequest(url: url)), !Task.isCancelled { await Task.yield() }
        let fromDisk = ImageRequest(url: url, options: .disableMemoryCacheReads)
        #expect(try await pipeline.imageTask(with: fromDisk).response.cacheType == .disk)
        let failing: [(ImageRequest, ImagePipeline.Error.Code)] = [
            (ImageRequest(url: nil), .invalidURL),
            (ImageRequest(url: URL(string: "data:image/png,")), .dataIsEmpty),
            (ImageRequest(url: URL(fileURLWithPath: "/etc/passwd")), .forbidden),
            (ImageRequest(id: "no picture", data: local), .unsupportedFormat),
            (ImageRequest(url: url, processors: [nothing]), .processingFailed),
            (ImageRequest(url: TestPipeline.url("new"), options: .returnCacheDataDontLoad), .dataMissingInCache),
        ]
        var codes: [ImagePipeline.Error.Code?] = []
        for (request, _) in failing { codes.append(await TestPipeline.code { try await pipeline.image(for: request) }) }
        let cancelled = pipeline.imageTask(with: TestPipeline.url("b"))
        cancelled.cancel()
        #expect(pipeline.tasks.count == 0)
        #expect(codes == failing.map(\.1))
        let ends = delegate.events.values.filter { !$0.hasSuffix("created") && !$0.hasSuffix("started") }
        #expect(ends.filter { !$0.contains("/") }.count == delegate.created.count)
        while pipeline.images.count > 0, !Task.isCancelled { await Task.yield() }
    }

    // A hit in memory is found before the task is returned, and its task has started before it finishes.
    @Test func aMemoryHitHasStartedToo() async throws {
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(HeldLoader(), delegate: delegate) { $0.imageCache = ImageCache() }
        pipeline.cache[url] = try TestPipeline.container()
        let task = pipeline.imageTask(with: url)
        #expect(task.status.result != nil)
        #expect(delegate.events.values == ["1 created", "1 started", "1 finished"])
        #expect(await texts(task.events) == ["finished"])
        #expect(try await task.response.cacheType == .memory)
        #expect(pipeline.tasks.count == 0)
    }

    // Nuke's whenInvalidatedTasksAreCancelled and invalidatedTasksFailWithError.
    @Test func aPipelineThatHasEndedTakesNoMore() async {
        let loader = HeldLoader()
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        let tasks = ["a", "b"].map { pipeline.imageTask(with: TestPipeline.url($0)) }
        await loader.requests.wait(for: 2)
        pipeline.invalidate()
        pipeline.invalidate()
        for task in tasks { #expect(await TestPipeline.code { try await task.response } == .cancelled) }
        await loader.cancels.wait(for: 2)
        let request = ImageRequest(url: url)
        #expect(await TestPipeline.code { try await pipeline.image(for: request) } == .pipelineInvalidated)
        #expect(await TestPipeline.code { try await pipeline.data(for: request) } == .pipelineInvalidated)
        #expect(await TestPipeline.code { try await pipeline.prefetch(request) } == .pipelineInvalidated)
        #expect(loader.requests.count == 2)
        #expect(pipeline.tasks.count == 0)
        #expect(delegate.events.values.suffix(2) == ["3 created", "3 pipeline_invalidated"])
    }

    // MARK: - Errors

    // A nil decoder is `.decoderNotRegistered`.
    @Test func bytesThatNoDecoderWants() async throws {
        let loader = HeldLoader(isHeld: false)
        let byClosure = TestPipeline.make(loader) { $0.makeImageDecoder = { _ in nil } }
        let byDelegate = TestPipeline.make(loader, delegate: TestDelegate { $0.takesBytes = false })
        let registry = ImageDecoderRegistry { _ in nil }
        let byRegistry = TestPipeline.make(loader) { $0.makeImageDecoder = { registry.decoder(for: $0) } }
        for pipeline in [byClosure, byDelegate, byRegistry] {
            let error = await TestPipeline.failure { try await pipeline.image(for: url) }
            #expect(error?.code == .decoderNotRegistered)
            #expect(error?.stage == .decode)
            #expect(error?.isRetryable == false)
        }
    }

    // Nil from a processor is `.processingFailed`; so is a thrown error, and the error names the processor.
    @Test func aProcessorThatGivesNothing() async {
        struct Broken: Error {}
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false))
        let processors = [
            TestProcessor(identifier: "nothing") { _ in nil },
            TestProcessor(identifier: "broken") { _ in throw Broken() },
        ]
        for processor in processors {
            let request = ImageRequest(url: url, processors: [TestProcessor(identifier: "same"), processor])
            let error = await TestPipeline.failure { try await pipeline.image(for: request) }
            #expect(error?.code == .processingFailed)
            #expect(error?.stage == .process)
            #expect(error?.message.contains(processor.identifier) == true)
        }
    }

    // An error of the loader's own type.
    @Test func aLoaderThatFails() async {
        struct Broken: Error {}
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let tasks = (0..<2).map { _ in pipeline.imageTask(with: url) }
        await loader.requests.wait(for: 1)
        loader.finish(0, error: Broken())
        // All tasks that share the load receive its error.
        for task in tasks { #expect(await TestPipeline.code { try await task.image } == .dataLoadingFailed) }
        #expect(pipeline.tasks.count == 0)
    }

    // MARK: - The shared pipeline

    // `ImagePipeline.shared` stays the same until another one is set.
    @Test func theSharedPipelineCanBeSet() {
        let before = ImagePipeline.shared
        defer { ImagePipeline.shared = before }
        #expect(ImagePipeline.shared === before)
        let other = TestPipeline.make(HeldLoader())
        ImagePipeline.shared = other
        #expect(ImagePipeline.shared === other)
        let cache = MemoryDataCache()
        ImagePipeline.shared = ImagePipeline {
            $0.dataCache = cache
        }
        #expect(ImagePipeline.shared.configuration.dataCache as? MemoryDataCache === cache)
    }
}
