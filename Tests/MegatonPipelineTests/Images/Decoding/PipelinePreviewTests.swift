import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Delivery of previews through a pipeline.
@Suite(.timeLimit(.minutes(2))) struct PipelinePreviewTests {
    private let request = ImageRequest(url: TestPipeline.url)
    private let size = PixelSize(width: 320, height: 240)
    private let scans: [Data]

    init() throws { scans = try TestPicture.scans(of: TestPicture.jpeg(320, 240, progressive: true)) }

    /// Preview policies for custom decoders: any bytes may be previewed.
    private let shows = TestDelegate { $0.previewPolicy = { _ in .incremental } }

    // MARK: - Events

    @Test func eachScanIsShownWhileTheDownloadIsUnderWay() async throws {
        let delegate = TestDelegate()
        let probe = PreviewProbe(scans, delegate: delegate)
        let task = await probe.begin()
        var previews = task.previews.makeAsyncIterator()
        for index in scans.indices.dropLast() {
            await probe.send(index)
            let next = await previews.next()
            let preview = try #require(next)
            #expect(preview.isPreview && preview.image.size == size && preview.urlResponse != nil)
            #expect(preview.container.userInfo[ImageDecoders.Default.scanNumberKey] as? Int == index + 1)
        }
        #expect(task.status.result == nil)
        probe.finish(from: scans.count - 1)
        let response = try await task.response
        #expect(!response.isPreview && response.image.size == size)
        let rest = await previews.next()
        #expect(rest == nil)
        let events = delegate.events.values.filter { !$0.contains("/") }
        let shown = [String](repeating: "1 preview", count: scans.count - 1)
        #expect(events == ["1 created", "1 started"] + shown + ["1 finished"])
    }

    /// Runs an action on each preview event of a task.
    private final class Reaction: ImagePipeline.Delegate {
        let action = TaskTestBox<@Sendable () -> Void>({})

        func imageTask(_ task: ImageTask, didReceiveEvent event: ImageTask.Event, pipeline: ImagePipeline) {
            if case .preview = event { action.value() }
        }
    }

    // A chunk that arrives while a preview is delivered is previewed too, also with a processor.
    @Test(arguments: [false, true]) func aChunkInAnswerToAPreviewIsShown(_ isProcessed: Bool) async throws {
        let delegate = Reaction()
        let probe = PreviewProbe(scans, delegate: delegate)
        let (count, sent) = (scans.count - 1, TaskTestBox(1))
        delegate.action.withLock { [loader = probe.loader, scans] action in
            action = {
                let index = sent.withLock { index in
                    defer { index += 1 }
                    return index
                }
                if index < count { loader.send(scans[index]) }
            }
        }
        let processors = isProcessed ? [TestProcessor(identifier: "same")] : []
        let task = await probe.begin(ImageRequest(url: TestPipeline.url, processors: processors))
        let events = task.events
        await probe.send(0)
        probe.finish(from: count)
        #expect(try await task.countPreviews(in: events) == count)
    }

    @Test func thereAreNoneByDefault() async throws {
        let configuration = ImagePipeline.Configuration()
        #expect(!configuration.isProgressiveDecodingEnabled && configuration.isStoringPreviewsInMemoryCache)
        #expect(configuration.progressiveDecodingInterval == .milliseconds(500))
        let probe = PreviewProbe(scans) { $0.isProgressiveDecodingEnabled = false }
        let task = await probe.begin()
        let events = task.events
        #expect(!probe.pipeline.originals.previews.contains(OriginalLoadKey(request)))
        for index in 0..<3 { await probe.send(index) }
        probe.finish(from: 3)
        #expect(try await task.countPreviews(in: events) == 0)
    }

    // A load makes previews as long as at least one task wants them.
    @Test func previewsAreClaimedUntilTheTaskEnds() async throws {
        let probe = PreviewProbe(scans)
        let wanted = { probe.pipeline.originals.previews.contains(OriginalLoadKey(request)) }
        let (first, second) = (await probe.begin(), await probe.begin())
        #expect(wanted())
        first.cancel()
        #expect(wanted())
        probe.finish(from: 0)
        _ = try await second.response
        #expect(!wanted())
        let third = probe.pipeline.imageTask(with: request)
        #expect(wanted())
        third.cancel()
        #expect(!wanted())
    }

    @Test func allTasksThatShareADownloadGetTheirPreviews() async throws {
        let probe = PreviewProbe(scans)
        var small = request
        small.thumbnail = .init(maxPixelSize: 32)
        let tasks = [await probe.begin(), await probe.begin(small), await probe.begin()]
        while probe.pipeline.originals.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
        var previews = tasks.map { $0.previews.makeAsyncIterator() }
        for index in 0..<2 {
            await probe.send(index)
            var sizes: [PixelSize?] = []
            for number in previews.indices { sizes.append(await previews[number].next()?.image.size) }
            #expect(sizes == [size, PixelSize(width: 32, height: 24), size])
        }
        probe.finish(from: 2)
        for task in tasks { _ = try await task.response }
        #expect(probe.loader.requests.count == 1)
    }

    // MARK: - Processors

    @Test func aPreviewGoesThroughTheProcessors() async throws {
        let probe = PreviewProbe(scans)
        let counts = TaskTestBox<[String: Int]>([:])
        var request = request
        // The second one returns a new container, without the preview flag.
        request.processors = [.resize(width: 32), CountingProcessor(id: "a", counts: counts)]
        let task = await probe.begin(request)
        var previews = task.previews.makeAsyncIterator()
        for index in 0..<2 {
            await probe.send(index)
            let next = await previews.next()
            let preview = try #require(next)
            #expect(preview.isPreview && preview.container.steps == ["a"])
            #expect(preview.image.size == PixelSize(width: 32, height: 24))
            #expect(preview.request.processors.count == 2)
        }
        probe.finish(from: 2)
        #expect(try await !task.response.isPreview)
        #expect(counts.value["a"] == 3)
    }

    @Test func aPreviewThatCannotBeMadeIsNone() async throws {
        struct WholeOnly: ImageProcessing {
            struct Unfinished: Error {}

            let identifier = "test/whole"

            func process(_ image: PlatformImage) -> PlatformImage? { image }

            func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
                if !context.isCompleted { throw Unfinished() }
                return container
            }
        }
        let probe = PreviewProbe(scans)
        var request = request
        request.processors = [WholeOnly()]
        let task = await probe.begin(request)
        let events = task.events
        for index in 0..<3 { await probe.send(index) }
        probe.finish(from: 3)
        #expect(try await task.countPreviews(in: events) == 0)
    }

    // MARK: - Decoding

    // One decoder gets all partial data of a download and the final image; data that arrives while it is busy is
    // skipped.
    @Test func oneIsDecodedAtATimeByOneDecoder() async throws {
        let decoder = HeldDecoder()
        let made = TestLog<Bool>()
        let probe = PreviewProbe([Data](repeating: Data(count: 10), count: 8), delegate: shows) {
            $0.renderConcurrency = 4
            $0.makeImageDecoder = { context in
                made.append(context.isCompleted)
                return decoder
            }
        }
        let task = await probe.begin()
        let events = task.events
        probe.loader.send(Data(count: 10))
        await decoder.begun.wait(for: 1)
        for _ in 0..<3 { probe.loader.send(Data(count: 10)) }
        decoder.release()
        await probe.idle()
        decoder.release()
        await probe.send(4)
        probe.finish(from: 5)
        #expect(try await task.countPreviews(in: events) == 2)
        #expect(decoder.begun.values == [10, 50])
        #expect(decoder.decoded.values == [80])
        #expect(made.values == [false])
    }

    @Test func noPreviewFollowsTheImage() async throws {
        let decoder = HeldDecoder()
        let memory = CountingImageCache()
        let probe = PreviewProbe([Data(count: 10), Data(count: 10)], delegate: shows) {
            $0.renderConcurrency = 2
            $0.imageCache = memory
            $0.makeImageDecoder = { _ in decoder }
        }
        let task = await probe.begin()
        let events = task.events
        probe.loader.send(Data(count: 10))
        await decoder.begun.wait(for: 1)
        probe.finish(from: 1)
        #expect(try await !task.response.isPreview)
        decoder.release()
        await probe.idle()
        #expect(try await task.countPreviews(in: events) == 0)
        #expect(memory.writes.count == 1 && probe.pipeline.cache[request]?.isPreview == false)
        #expect(decoder.begun.count == 1)
    }

    // A custom decoder may forget to set the flag.
    @Test func aPreviewIsCalledOne() async throws {
        let decoder = HeldDecoder()
        decoder.release()
        let probe = PreviewProbe([Data(count: 10), Data(count: 10)], delegate: shows) {
            $0.makeImageDecoder = { _ in decoder }
        }
        let task = await probe.begin()
        var previews = task.previews.makeAsyncIterator()
        await probe.send(0)
        #expect(await previews.next()?.isPreview == true)
        probe.finish(from: 1)
        _ = try await task.response
    }

    @Test func theDelegateDecidesWhatIsShown() async throws {
        let asked = TestLog<Int>()
        let quiet = TestDelegate {
            $0.previewPolicy = { context in
                asked.append(context.isCompleted ? -1 : context.data.count)
                return .disabled
            }
        }
        let probe = PreviewProbe(scans, delegate: quiet)
        let task = await probe.begin()
        let events = task.events
        for index in scans.indices.dropLast() { await probe.send(index) }
        probe.finish(from: scans.count - 1)
        #expect(try await task.countPreviews(in: events) == 0)
        // Asked again once the data has doubled, because the decoder may scan all of it.
        #expect(asked.values.first == scans[0].count)
        for (one, next) in zip(asked.values, asked.values.dropFirst()) { #expect(next >= one * 2) }

        let rows = try TestPicture.jpeg(320, 240)
        let halves = [rows.prefix(rows.count / 2), rows.dropFirst(rows.count / 2)]
        for (delegate, count) in [(shows, 1), (TestDelegate(), 0)] {
            let probe = PreviewProbe(halves, delegate: delegate)
            let task = await probe.begin()
            let events = task.events
            await probe.send(0)
            probe.finish(from: 1)
            #expect(try await task.countPreviews(in: events) == count)
        }
    }

    @Test func aPreviewDoesNotWaitForMemory() async throws {
        let cost = try ImageDecoders.Default().plan(scans.reduce(Data(), +)).cost
        let budget = MemoryBudget(bytes: cost.bytes)
        let probe = PreviewProbe(scans) { $0.memoryBudget = budget }
        let task = await probe.begin()
        var previews = task.previews.makeAsyncIterator()
        try #require(try budget.tryAcquire(cost))
        await probe.send(0)
        #expect(budget.counts.waited == 0)
        budget.release(cost)
        await probe.send(1)
        let number = await previews.next()?.container.userInfo[ImageDecoders.Default.scanNumberKey] as? Int
        #expect(number == 2, "the first one was not shown")
        #expect(budget.counts.bytesInUse == 0)
        probe.finish(from: 2)
        _ = try await task.response
    }

    // MARK: - Caches

    @Test func aPreviewIsInMemoryUntilTheImageIs() async throws {
        let memory = CountingImageCache()
        let probe = PreviewProbe(scans) { $0.imageCache = memory }
        var request = request
        request.processors = [.resize(width: 32)]
        // Two tasks that receive the same preview store it once.
        let tasks = [await probe.begin(request), await probe.begin(request)]
        await probe.send(0)
        #expect(memory.writes.count == 1)
        #expect(probe.pipeline.cache[request]?.isPreview == true)
        probe.finish(from: 1)
        for task in tasks { _ = try await task.response }
        await probe.idle()
        #expect(probe.pipeline.cache[request]?.isPreview == false)
        #expect(memory.keys.count == 1, "what was a step on the way is not kept")
    }

    @Test func aPreviewInMemoryIsShownAtOnce() async throws {
        // Streams are created before the tasks start.
        let streams = TestLog<AsyncStream<ImageResponse>>()
        let delegate = TestDelegate { $0.created = { streams.append($0.previews) } }
        let probe = PreviewProbe(scans, delegate: delegate) { $0.imageCache = ImageCache() }
        let first = await probe.begin()
        await probe.send(0)
        first.cancel()
        #expect(probe.pipeline.cache[request]?.isPreview == true)
        var small = request
        small.processors = [.resize(width: 32)]
        for (number, request) in [request, small].enumerated() {
            let task = probe.pipeline.imageTask(with: request)
            var previews = streams.values[number + 1].makeAsyncIterator()
            let preview = await previews.next()
            #expect(preview?.image.size.width == (number == 0 ? 320 : 32) && preview?.isPreview == true)
            task.cancel()
        }
    }

    @Test func previewsNeedNotBeInMemory() async throws {
        var quiet = request
        quiet.options = .disableMemoryCacheWrites
        for (request, isStoring) in [(request, false), (quiet, true)] {
            let memory = CountingImageCache()
            let probe = PreviewProbe(scans) {
                $0.imageCache = memory
                $0.isStoringPreviewsInMemoryCache = isStoring
            }
            let task = await probe.begin(request)
            await probe.send(0)
            var preview = try TestPipeline.container()
            preview.isPreview = true
            probe.pipeline.cache[request] = preview
            #expect(memory.writes.isEmpty)
            task.cancel()
        }
    }

    @Test func aPreviewDoesNotReplaceAnImage() async throws {
        let probe = PreviewProbe(scans) { $0.imageCache = ImageCache() }
        probe.pipeline.cache[request] = try TestPipeline.container()
        var reload = request
        reload.options = .reloadIgnoringCachedData
        let task = await probe.begin(reload)
        var previews = task.previews.makeAsyncIterator()
        await probe.send(0)
        #expect(await previews.next()?.isPreview == true)
        #expect(probe.pipeline.cache[request]?.isPreview == false)
        task.cancel()
    }

    @Test(arguments: [ImagePipeline.DataCachePolicy.storeAll, .storeEncodedImages, .automatic])
    func previewsAreInNoDataCache(_ policy: ImagePipeline.DataCachePolicy) async throws {
        let cache = CountingDataCache()
        let probe = PreviewProbe(scans) {
            $0.dataCache = cache
            $0.dataCachePolicy = policy
        }
        var request = request
        request.processors = [.resize(width: 32)]
        let task = await probe.begin(request)
        var previews = task.previews.makeAsyncIterator()
        for index in 0..<2 {
            await probe.send(index)
            #expect(await previews.next() != nil)
        }
        task.cancel()
        #expect(probe.pipeline.revalidator.count == 0)
        #expect(cache.writes.isEmpty)
    }

    @Test func aPrefetcherIsNotContentWithAPreview() async throws {
        let probe = PreviewProbe(scans) { $0.imageCache = ImageCache() }
        var preview = try TestPipeline.container()
        preview.isPreview = true
        probe.pipeline.cache[request] = preview
        let prefetcher = ImagePrefetcher(pipeline: probe.pipeline)
        prefetcher.startPrefetching(with: [request])
        #expect(prefetcher.count == 1)
        prefetcher.stopPrefetching()
    }
}
