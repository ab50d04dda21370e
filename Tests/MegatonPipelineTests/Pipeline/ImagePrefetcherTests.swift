import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct ImagePrefetcherTests {
    private let outcomes = TestLog<String>()
    private let completions = TestLog<Void>()

    private func urls(_ names: String...) -> [URL] { names.map { TestPipeline.url($0) } }

    private func prefetcher(
        _ pipeline: ImagePipeline,
        _ destination: ImagePrefetcher.Destination = .memoryCache,
        width: Int = 2
    ) -> ImagePrefetcher {
        ImagePrefetcher(
            pipeline: pipeline,
            destination: destination,
            maxConcurrentRequestCount: width,
            didFinish: { [outcomes] outcome in
                let name = outcome.request.url?.lastPathComponent ?? ""
                switch outcome.result {
                case .success: outcomes.append("\(name) done")
                case .failure(let error): outcomes.append("\(name) \(error.code.rawValue)")
                }
            },
            didComplete: { [completions] in completions.append(()) }
        )
    }

    // Nuke's basicScenario: a prefetched image is in memory for later requests.
    @Test func aPrefetchedImageIsInMemory() async throws {
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader) { $0.imageCache = ImageCache() }
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a", "b"))
        await completions.wait(for: 1)
        #expect(try await pipeline.imageTask(with: TestPipeline.url("a")).response.cacheType == .memory)
        #expect(loader.requests.count == 2)
        #expect(Set(outcomes.values) == ["a done", "b done"])
        #expect(completions.count == 1)
        #expect(prefetcher.count == 0)
    }

    // Nuke's basicScenario: one download together with a regular request.
    @Test(arguments: [ImagePrefetcher.Destination.memoryCache, .diskCache])
    func oneDownloadTogetherWithARegularRequest(_ destination: ImagePrefetcher.Destination) async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline, destination)
        prefetcher.startPrefetching(with: urls("a"))
        await loader.requests.wait(for: 1)
        let task = pipeline.imageTask(with: TestPipeline.url("a"))
        while pipeline.originals.subscriberCount + pipeline.images.subscriberCount < 3, !Task.isCancelled {
            await Task.yield()
        }
        loader.release()
        _ = try await task.response
        await completions.wait(for: 1)
        #expect(loader.requests.count == 1)
    }

    // Images in memory are skipped, and reported as complete.
    @Test func imagesInMemoryAreSkipped() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader) { $0.imageCache = ImageCache() }
        pipeline.cache[TestPipeline.url("a")] = try TestPipeline.container()
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a"))
        #expect(prefetcher.count == 0)
        #expect(outcomes.values == ["a done"])
        #expect(completions.count == 1)
        #expect(loader.requests.count == 0)
    }

    // Starts and stops need not balance.
    @Test func oneStopEndsTwoStarts() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a"))
        prefetcher.startPrefetching(with: urls("a", "a"))
        await loader.requests.wait(for: 1)
        #expect(prefetcher.count == 1)
        prefetcher.stopPrefetching(with: urls("a", "unknown"))
        prefetcher.stopPrefetching(with: urls("a"))
        await loader.cancels.wait(for: 1)
        #expect(loader.requests.count == 1)
        #expect(completions.count == 1)
        #expect(outcomes.count == 0)
    }

    // A stop does not cancel work that another request shares.
    @Test func aStopLeavesOthersAlone() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a"))
        await loader.requests.wait(for: 1)
        let task = pipeline.imageTask(with: TestPipeline.url("a"))
        prefetcher.stopPrefetching()
        loader.release()
        #expect(try await task.image.size.width == 16)
        #expect(loader.cancels.count == 0)
    }

    // A stop before the start of the work means no work at all.
    @Test func aPrefetchStoppedBeforeItBeginsDoesNoWork() async {
        let delegate = TestDelegate()
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        let prefetcher = prefetcher(pipeline)
        prefetcher.isPaused = true
        prefetcher.startPrefetching(with: urls("a", "b"))
        prefetcher.stopPrefetching(with: urls("a"))
        #expect(completions.count == 0)
        prefetcher.isPaused = false
        await completions.wait(for: 1)
        #expect(loader.paths == ["b"])
        #expect(delegate.created.count == 1)
        #expect(outcomes.values == ["b done"])
    }

    // A request can be started again after a stop.
    @Test func aStopIsNotForEver() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a"))
        await loader.requests.wait(for: 1)
        prefetcher.stopPrefetching()
        await loader.cancels.wait(for: 1)
        prefetcher.startPrefetching(with: urls("a"))
        await loader.requests.wait(for: 2)
        loader.release()
        await outcomes.wait(for: 1)
        #expect(outcomes.values == ["a done"])
    }

    // Pausing lets running work finish and holds the rest.
    @Test func aPauseHoldsWhatHasNotBegun() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline, width: 1)
        prefetcher.startPrefetching(with: urls("a", "b"))
        await loader.requests.wait(for: 1)
        prefetcher.isPaused = true
        #expect(prefetcher.isPaused)
        loader.release()
        await outcomes.wait(for: 1)
        #expect(loader.paths == ["a"])
        #expect(prefetcher.count == 1)
        #expect(completions.count == 0)
        prefetcher.isPaused = false
        await completions.wait(for: 1)
        #expect(loader.paths == ["a", "b"])
    }

    // The prefetcher's priority replaces the request's.
    @Test func requestsHaveThePrefetchersPriority() async {
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(HeldLoader(), delegate: delegate)
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: [ImageRequest(url: TestPipeline.url("a"), priority: .veryHigh)])
        await delegate.created.wait(for: 1)
        #expect(delegate.created.values[0].request.priority == .low)
    }

    // A change of the priority applies to waiting requests.
    @Test func aChangedPriorityReachesWhatHasNotBegun() async {
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false), delegate: delegate)
        let prefetcher = prefetcher(pipeline)
        prefetcher.isPaused = true
        prefetcher.startPrefetching(with: urls("a"))
        prefetcher.priority = .high
        prefetcher.isPaused = false
        await completions.wait(for: 1)
        #expect(delegate.created.values.map(\.request.priority) == [.high])
    }

    // A change of the priority applies to running requests too.
    @Test func aChangedPriorityReachesWhatIsUnderWay() async {
        let delegate = TestDelegate()
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        let prefetcher = prefetcher(pipeline)
        prefetcher.startPrefetching(with: urls("a"))
        await loader.requests.wait(for: 1)
        prefetcher.priority = .veryHigh
        while delegate.created.values[0].priority != .veryHigh, !Task.isCancelled { await Task.yield() }
        loader.release()
        await completions.wait(for: 1)
    }

    // With the disk as destination nothing is decoded, and the bytes are cached for later requests.
    @Test func theDataCacheIsFilledWithoutDecoding() async throws {
        let decodes = TestLog<Void>()
        let registry = ImageDecoderRegistry(limits: RenderLimits(), types: AssetType.supported)
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader) {
            $0.imageCache = ImageCache()
            $0.dataCache = MemoryDataCache()
            $0.makeImageDecoder = { context in
                decodes.append(())
                return registry.decoder(for: context)
            }
        }
        let prefetcher = prefetcher(pipeline, .diskCache)
        prefetcher.startPrefetching(with: urls("a"))
        await completions.wait(for: 1)
        #expect(decodes.count == 0)
        #expect(pipeline.cache[TestPipeline.url("a")] == nil)
        #expect(await pipeline.cache.containsData(for: ImageRequest(url: TestPipeline.url("a"))))
        #expect(try await pipeline.imageTask(with: TestPipeline.url("a")).response.cacheType == .disk)
        #expect(loader.requests.count == 1)
    }

    // didComplete is called once when nothing is left, and each item reports its result (Nuke #167).
    @Test func eachItemSaysHowItWent() async {
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader)
        let prefetcher = prefetcher(pipeline)
        let requests = urls("a", "b", "c").map { ImageRequest(url: $0) } + [ImageRequest(url: nil)]
        prefetcher.startPrefetching(with: requests)
        await completions.wait(for: 1)
        #expect(outcomes.values.sorted() == [" invalid_url", "a done", "b done", "c done"])
        #expect(completions.count == 1)
        prefetcher.startPrefetching(with: urls("d"))
        await completions.wait(for: 2)
        #expect(outcomes.count == 5)
    }

    // An invalidated pipeline ends its prefetches.
    @Test(arguments: [ImagePrefetcher.Destination.memoryCache, .diskCache])
    func anInvalidatedPipelineEndsItsPrefetches(_ destination: ImagePrefetcher.Destination) async {
        let pipeline = TestPipeline.make(HeldLoader())
        pipeline.invalidate()
        let prefetcher = prefetcher(pipeline, destination)
        prefetcher.startPrefetching(with: urls("a"))
        await completions.wait(for: 1)
        #expect(outcomes.values == ["a pipeline_invalidated"])
    }

    // The end of the prefetcher cancels its requests.
    @Test(arguments: [ImagePrefetcher.Destination.memoryCache, .diskCache])
    func everythingEndsWithThePrefetcher(_ destination: ImagePrefetcher.Destination) async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        var prefetcher: ImagePrefetcher? = prefetcher(pipeline, destination, width: 1)
        prefetcher?.startPrefetching(with: urls("a", "b"))
        await loader.requests.wait(for: 1)
        prefetcher = nil
        await loader.cancels.wait(for: 1)
        while pipeline.images.count > 0, !Task.isCancelled { await Task.yield() }
        #expect(loader.paths == ["a"])
    }
}
