import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct PipelineCoalescingTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    private func code<Value>(_ body: () async throws(ImagePipeline.Error) -> Value) async -> ImagePipeline.Error.Code? {
        do throws(ImagePipeline.Error) {
            _ = try await body()
            return nil
        } catch {
            return error.code
        }
    }

    /// Starts tasks while the origin holds its responses, and releases it once tasks and steps have the given number of
    /// subscriptions.
    private func responses(
        _ requests: [ImageRequest],
        _ probe: PipelineProbe,
        _ origin: OriginServer,
        subscribers: Int
    ) async throws -> [ImageResponse] {
        origin.hold()
        let tasks = requests.map { probe.pipeline.imageTask(with: $0) }
        await probe.waitForImages(subscribers)
        origin.release()
        var responses: [ImageResponse] = []
        for task in tasks { responses.append(try await task.response) }
        return responses
    }

    // Equal requests share one download, and each processor is applied once.
    @Test func equalRequestsAreOneDownload() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let requests = (0..<2).map { _ in probe.request(origin.url("/a"), ["1"]) }
            let responses = try await responses(requests, probe, origin, subscribers: 3)
            #expect(origin.total == 1 && probe.decodes == 1)
            #expect(probe.steps == ["1": 1])
            #expect(responses.map(\.container.steps) == [["1"], ["1"]])
            #expect(probe.memory.writes.count == 1, "what they share is kept once")
        }
    }

    // One download, and each task gets the result of its own processor.
    @Test func differentProcessorsShareTheDownload() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let requests = ["1", "2"].map { probe.request(origin.url("/a"), [$0]) }
            let responses = try await responses(requests, probe, origin, subscribers: 4)
            #expect(origin.total == 1 && probe.decodes == 1)
            #expect(responses.map(\.container.steps) == [["1"], ["2"]])
        }
    }

    // Requests that may get another response from the origin do not share a download.
    @Test func requestsThatAreNotEquivalentAreDownloadedEach() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let plain = URLRequest(url: origin.url("/a"))
            var (uncached, method, body, field) = (plain, plain, plain, plain)
            uncached.cachePolicy = .reloadIgnoringLocalCacheData
            method.httpMethod = "POST"
            body.httpMethod = "POST"
            body.httpBody = Data("x".utf8)
            field.setValue("de", forHTTPHeaderField: "Accept-Language")
            let all = [plain, uncached, method, body, field]
            origin.hold()
            let tasks = all.map { probe.pipeline.imageTask(with: ImageRequest(urlRequest: $0)) }
            await origin.waitForRequests("/a", count: all.count)
            origin.release()
            for task in tasks { _ = try await task.response }
            #expect(origin.total == all.count)
        }
    }

    // A response fetched with one request's credentials is not delivered to another request.
    @Test func requestsWithDifferentCredentialsGetTheirOwnResponses() async throws {
        let (mine, yours) = (image, TestImage.quarters(width: 32, height: 32))
        try await OriginServer.run(responding: { request in
            .image(request.headers["authorization"] == "mine" ? mine : yours)
        }) { (origin) async throws in
            let probe = PipelineProbe()
            origin.hold()
            let tasks = ["mine", "yours"].map { name in
                var request = probe.request(origin.url("/a"))
                request.headers = ["Authorization": name]
                return probe.pipeline.imageTask(with: request)
            }
            await origin.waitForRequests("/a", count: 2)
            origin.release()
            #expect(try await tasks[0].image.size == PixelSize(width: 64, height: 64))
            #expect(try await tasks[1].image.size == PixelSize(width: 32, height: 32))
        }
    }

    // Two presigned URLs of one image share one download.
    @Test func requestsWithOneImageIDShareADownload() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let requests = (1...2).map { number in
                var request = probe.request(origin.url("/a?signature=\(number)"))
                request.imageID = "a"
                return request
            }
            _ = try await responses(requests, probe, origin, subscribers: 2)
            #expect(origin.total == 1)
        }
    }

    // Different thumbnails share one download, with a decode for each.
    @Test(arguments: [[32, 16], [16, 32]]) func thumbnailsShareTheDownload(sides: [Int]) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeNothing }
            origin.hold()
            let tasks = sides.map { side in
                var request = probe.request(origin.url("/a"))
                request.thumbnail = .init(maxPixelSize: side)
                return probe.pipeline.imageTask(with: request)
            }
            await probe.waitForOriginals(2)
            origin.release()
            for (task, side) in zip(tasks, sides) {
                #expect(try await task.image.size == PixelSize(width: side, height: side))
            }
            #expect(origin.total == 1 && probe.decodes == 2)
        }
    }

    // Three requests, two of them equal: two operations.
    @Test func processorsAreAppliedOnce() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let requests = ["1", "2", "1"].map { probe.request(origin.url("/a"), [$0]) }
            _ = try await responses(requests, probe, origin, subscribers: 5)
            #expect(probe.steps == ["1": 1, "2": 1])
            #expect(origin.total == 1)
        }
    }

    // The download is cancelled when its last subscriber leaves.
    @Test func theLastOneToLeaveEndsTheDownload() async throws {
        let loader = ScriptedLoader([.init(chunks: [image.prefix(10)], isEndless: true)])
        let probe = PipelineProbe { $0.dataLoader = loader }
        let request = probe.request(URL(string: "http://example.com/a")!)
        let tasks = (0..<2).map { _ in probe.pipeline.imageTask(with: request) }
        while loader.requests.isEmpty, !Task.isCancelled { await Task.yield() }
        tasks[0].cancel()
        #expect(loader.cancelled == 0)
        tasks[1].cancel()
        await loader.waitForCancel()
        #expect(loader.requests.count == 1)
        #expect(await code { () async throws(ImagePipeline.Error) in try await tasks[1].response } == .cancelled)
    }

    // Cancelling one of two tasks does not affect the other.
    @Test func cancellingOneLeavesTheOther() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            origin.hold()
            let request = probe.request(origin.url("/a"), ["1"])
            let tasks = (0..<2).map { _ in probe.pipeline.imageTask(with: request) }
            await origin.waitForRequests("/a", count: 1)
            tasks[0].cancel()
            origin.release()
            #expect(try await tasks[1].response.container.steps == ["1"])
            #expect(tasks[0].status.isCancelled)
            #expect(origin.total == 1)
        }
    }

    // Bytes and an image of one URL share one download.
    @Test func dataAndImageShareTheDownload() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeNothing }
            let request = probe.request(origin.url("/a"))
            origin.hold()
            async let data = probe.pipeline.data(for: request)
            let task = probe.pipeline.imageTask(with: request)
            await probe.waitForOriginals(2)
            origin.release()
            #expect(try await data.data == image)
            #expect(try await task.image.size == PixelSize(width: 64, height: 64))
            #expect(origin.total == 1 && probe.decodes == 1)
        }
    }

    // Without coalescing each request does all of its own work.
    @Test func coalescingCanBeDisabled() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.isTaskCoalescingEnabled = false }
            origin.hold()
            let request = probe.request(origin.url("/a"), ["1"])
            let tasks = (0..<2).map { _ in probe.pipeline.imageTask(with: request) }
            await origin.waitForRequests("/a", count: 2)
            origin.release()
            for task in tasks { _ = try await task.response }
            #expect(origin.total == 2)
            #expect(probe.steps == ["1": 2])
        }
    }

    // A step that several results have in common is done once.
    @Test func eachStepIsTakenOnce() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let requests = [["1"], ["1", "2"]].map { probe.request(origin.url("/a"), $0) }
            let responses = try await responses(requests, probe, origin, subscribers: 4)
            #expect(probe.steps == ["1": 1, "2": 1])
            #expect(responses.map(\.container.steps) == [["1"], ["1", "2"]])
        }
    }

    // Only requested images are stored in memory, and no intermediate ones.
    @Test func onlyResultsAreKeptInMemory() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1", "2"])
            _ = try await probe.pipeline.image(for: request)
            #expect(probe.memory.keys == [ImageCacheKey(request: request)])
            #expect(probe.memory.writes.count == 1)
        }
    }

    // An intermediate image in memory is used.
    @Test func intermediateImagesInMemoryAreUsed() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let part = probe.request(origin.url("/a"), ["1"])
            let picture = try ImageDecoders.Default().decode(image).image
            probe.pipeline.cache[part] = ImageContainer(image: picture, userInfo: ["steps": ["memory"]])
            let response = try await probe.pipeline.imageTask(with: probe.request(origin.url("/a"), ["1", "2"]))
                .response
            #expect(response.container.steps == ["memory", "2"])
            #expect(response.cacheType == .memory)
            #expect(probe.steps == ["2": 1])
            #expect(origin.total == 0)
        }
    }

    // An intermediate image in a data cache is used.
    @Test func intermediateImagesInADataCacheAreUsed() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let part = probe.request(origin.url("/a"), ["1"])
            await probe.keep(image, for: .image(of: part))
            let response = try await probe.pipeline.imageTask(with: probe.request(origin.url("/a"), ["1", "2"]))
                .response
            #expect(response.cacheType == .disk)
            #expect(probe.steps == ["2": 1])
            #expect(origin.total == 0)
        }
    }

    // A reload shares the download with requests that do not reload.
    @Test(arguments: [false, true]) func optionsDoNotSplitTheDownload(isReloadFirst: Bool) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let all: [ImageRequest.Options] = [[], .reloadIgnoringCachedData, .disableDiskCacheWrites]
            let requests = (isReloadFirst ? all.reversed() : all).map {
                probe.request(origin.url("/a"), options: $0)
            }
            origin.hold()
            let tasks = requests.map { probe.pipeline.imageTask(with: $0) }
            await probe.waitForOriginals(3)
            origin.release()
            for task in tasks { _ = try await task.response }
            #expect(origin.total == 1)
            await probe.settle()
            #expect(probe.cache.writes == [probe.original(requests[0])])
        }
    }

    // A reload does not get what another request finds in a cache.
    @Test func aReloadDoesNotGetACachedImage() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let (plain, reload) = (
                probe.request(origin.url("/a")), probe.request(origin.url("/a"), options: .reloadIgnoringCachedData)
            )
            await probe.keepOriginal(image, of: plain)
            probe.cache.hold([probe.original(plain)])
            async let kept = probe.pipeline.data(for: plain)
            await probe.waitForOriginals(1)
            async let reloaded = probe.pipeline.data(for: reload)
            await probe.waitForOriginals(2)
            probe.cache.release()
            #expect(try await kept.response == nil)
            #expect(try await reloaded.response != nil)
            #expect(origin.total == 1)
        }
    }

    // All requests that share a download share its error.
    @Test func errorsReachAll() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 404) }) { (origin) async throws in
            let probe = PipelineProbe()
            origin.hold()
            let tasks = [[], ["1"]].map { probe.pipeline.imageTask(with: probe.request(origin.url("/a"), $0)) }
            await probe.waitForImages(3)
            origin.release()
            for task in tasks {
                #expect(await code { () async throws(ImagePipeline.Error) in try await task.response } == .notFound)
            }
            #expect(origin.total == 1)
        }
    }

    // The closure of several requests with one id is called once, and its bytes are stored like others.
    @Test func closuresAreCalledOnce() async throws {
        let probe = PipelineProbe { $0.dataCachePolicy = .storeOriginalData }
        let (gate, calls) = (TaskTestGate(), TaskTestBox(0))
        let fetch: @Sendable () async throws -> Data = { [image] in
            calls.withLock { $0 += 1 }
            await gate.pass()
            return image
        }
        let request = ImageRequest(id: "closure", data: fetch)
        let task = probe.pipeline.imageTask(with: request)
        async let data = probe.pipeline.data(for: request)
        await probe.waitForOriginals(2)
        gate.open.resolve(())
        #expect(try await data.data == image)
        #expect(try await task.response.cacheType == nil)
        #expect(calls.value == 1)
        await probe.settle()
        #expect(probe.cache.writes == [probe.original(request)])
        _ = try await probe.pipeline.data(for: request)
        #expect(calls.value == 1)
    }

    // A slow cache lookup of one request does not delay others.
    @Test func aSlowLookupDelaysNoOtherRequest() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let slow = probe.request(origin.url("/slow"))
            probe.cache.hold([probe.original(slow)])
            let task = probe.pipeline.imageTask(with: slow)
            while probe.cache.lookups.isEmpty, !Task.isCancelled { await Task.yield() }
            _ = try await probe.pipeline.image(for: probe.request(origin.url("/other"), ["1"]))
            #expect(origin.count("/slow") == 0)
            probe.cache.release()
            _ = try await task.response
        }
    }

    // Neither another pipeline's work nor another image of the same pipeline delays an image.
    @Test func imagesAreProcessedConcurrently() async throws {
        try await run { (origin) async throws in
            let meeting = Meeting(2)
            let probes = (0..<2).map { _ in PipelineProbe { $0.renderConcurrency = 1 } }
            let tasks = probes.map { probe in
                probe.pipeline.imageTask(
                    with: ImageRequest(url: origin.url("/a"), processors: [MeetingProcessor(meeting: meeting)])
                )
            }
            for task in tasks { _ = try await task.response }
            let inside = Meeting(2)
            let wide = PipelineProbe { $0.renderConcurrency = 2 }
            let pair = ["/a", "/b"].map { path in
                wide.pipeline.imageTask(
                    with: ImageRequest(url: origin.url(path), processors: [MeetingProcessor(meeting: inside)])
                )
            }
            for task in pair { _ = try await task.response }
        }
    }
}
