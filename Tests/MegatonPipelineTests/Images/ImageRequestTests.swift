import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct ImageRequestTests {
    private struct Broken: Error {}

    private let png = TestPipeline.png

    // MARK: - The request itself

    // Each initializer, and its defaults.
    @Test func aRequestIsMadeOfAURL() {
        let request = ImageRequest(url: TestPipeline.url)
        #expect(request.url == TestPipeline.url)
        #expect(request.imageID == "http://example.com/a")
        #expect(request.priority == .normal)
        #expect(request.options == [])
        #expect(request.processors.isEmpty)
        #expect(request.thumbnail == nil)
        let literal: ImageRequest = "http://example.com/a"
        #expect(literal.url == TestPipeline.url)
        var urlRequest = URLRequest(url: TestPipeline.url)
        urlRequest.setValue("b", forHTTPHeaderField: "A")
        #expect(ImageRequest(urlRequest: urlRequest).urlRequest?.value(forHTTPHeaderField: "A") == "b")
        #expect(ImageRequest(id: "one", data: { Data() }).imageID == "one")
        #expect(ImageRequest(id: "one", data: { Data() }).url == nil)
    }

    // A nil URL is refused when it is loaded, not before.
    @Test func noURLIsRefusedWhenItIsLoaded() async {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader)
        let request = ImageRequest(url: nil)
        #expect(request.imageID == nil)
        #expect(await TestPipeline.code { try await pipeline.image(for: request) } == .invalidURL)
        #expect(await TestPipeline.code { try await pipeline.data(for: request) } == .invalidURL)
        #expect(loader.requests.count == 0)
    }

    // A request is a value.
    @Test func aCopyIsOfItsOwn() {
        let request = ImageRequest(url: TestPipeline.url)
        var copy = request
        copy.imageID = "another"
        copy.priority = .high
        copy.userInfo["key"] = 1
        copy.thumbnail = ImageRequest.ThumbnailOptions(maxPixelSize: 4)
        #expect(request.imageID == "http://example.com/a")
        #expect(request.priority == .normal)
        #expect(request.userInfo.isEmpty)
        #expect(request.thumbnail == nil)
        copy.imageID = nil
        #expect(copy.imageID == "http://example.com/a")
    }

    // Options are distinct.
    @Test func optionsAreApart() {
        let all: [ImageRequest.Options] = [
            .disableMemoryCacheReads, .disableMemoryCacheWrites, .disableDiskCacheReads, .disableDiskCacheWrites,
            .returnCacheDataDontLoad, .skipDataLoadingQueue,
        ]
        #expect(Set(all.map(\.rawValue)).count == all.count)
        let reload = ImageRequest.Options.reloadIgnoringCachedData
        #expect(reload == [.disableMemoryCacheReads, .disableDiskCacheReads])
        #expect(!reload.contains(.disableDiskCacheWrites))
    }

    // Signatures and other secrets in a URL do not appear in descriptions.
    @Test func aDescriptionKeepsSecrets() {
        let request: ImageRequest = "https://user:word@example.com/a?token=secret&width=3"
        #expect("\(request)".contains("https://example.com/a?…"))
        #expect(!"\(request)".contains("secret"))
        #expect(!"\(request)".contains("word"))
    }

    // Requests with the same image ID share one download and one image in memory, whatever their URLs.
    @Test func oneNameIsOneSource() async throws {
        let loader = HeldLoader()
        let pipeline = TestPipeline.make(loader) { $0.imageCache = ImageCache() }
        let requests = ["a?signature=1", "a?signature=2"].map { name in
            var request = ImageRequest(url: TestPipeline.url(name))
            request.imageID = "picture"
            return request
        }
        let tasks = requests.map { pipeline.imageTask(with: $0) }
        await loader.requests.wait(for: 1)
        loader.release()
        for task in tasks { _ = try await task.response }
        #expect(loader.requests.count == 1)
        #expect(pipeline.cache[requests[1]] != nil)
    }

    // MARK: - Closures

    // A closure that returns no bytes (Nuke's imageRequestWithAsyncAwaitReturningEmptyData).
    @Test func noBytesOfAClosure() async {
        let pipeline = TestPipeline.make(HeldLoader())
        let request = ImageRequest(id: "empty", data: { Data() })
        #expect(await TestPipeline.code { try await pipeline.image(for: request) } == .dataIsEmpty)
        #expect(await TestPipeline.code { try await pipeline.data(for: request) } == .dataIsEmpty)
    }

    // An error thrown by a closure becomes `.dataLoadingFailed`, unless it is an `ImagePipeline.Error`.
    @Test func aClosureThatThrows() async {
        let pipeline = TestPipeline.make(HeldLoader())
        let data = ImageRequest(id: "data", data: { throw Broken() })
        let picture = ImageRequest(id: "picture", image: { throw Broken() })
        for request in [data, picture] {
            let error = await TestPipeline.failure { try await pipeline.image(for: request) }
            #expect(error?.code == .dataLoadingFailed)
            #expect(error?.message.contains("Broken") == true)
        }
        let known = ImageRequest(id: "known", data: { throw ImagePipeline.Error(.notFound, "It is not there.") })
        #expect(await TestPipeline.code { try await pipeline.image(for: known) } == .notFound)
    }

    @Test func aClosureGivesTooMuch() async {
        let pipeline = TestPipeline.make(HeldLoader()) { $0.maximumDataSize = 10 }
        let request = ImageRequest(id: "much", data: { Data(count: 11) })
        #expect(await TestPipeline.code { try await pipeline.data(for: request) } == .dataTooLarge)
    }

    // A closure is called once for all concurrent requests with its ID, whatever they make from its bytes.
    @Test func aClosureIsCalledOnceForAll() async throws {
        let calls = TestLog<Void>()
        let gate = TaskTestGate()
        let png = png
        let pipeline = TestPipeline.make(HeldLoader())
        let request = ImageRequest(id: "one") {
            calls.append(())
            await gate.pass()
            return png
        }
        let first = pipeline.imageTask(with: request)
        await gate.begun.value
        var (processed, small) = (request, request)
        processed.processors = [TestProcessor(identifier: "same")]
        small.thumbnail = ImageRequest.ThumbnailOptions(maxPixelSize: 4)
        let tasks = [first] + [request, processed, small].map { pipeline.imageTask(with: $0) }
        let data = Task { try await pipeline.data(for: request).data }  // Awaited below.
        // Four tasks, and the step of the processed one. If the plain one ended before that step had joined, the
        // closure would be called again.
        while pipeline.images.subscriberCount < 5 || pipeline.originals.subscriberCount < 3, !Task.isCancelled {
            await Task.yield()
        }
        gate.open.resolve(())
        var widths: [Int] = []
        for task in tasks { widths.append(try await task.image.size.width) }
        #expect(widths == [16, 16, 16, 4])
        #expect(try await data.value == png)
        #expect(calls.count == 1)
        #expect(try await first.response.cacheType == nil)
    }

    // A closure takes a fetch slot, unless its request skips the queue.
    @Test func aClosureWaitsForAPlace() async throws {
        let gate = TaskTestGate()
        let png = png
        let pipeline = TestPipeline.make(HeldLoader()) { $0.fetchConcurrency = 1 }
        let first = pipeline.imageTask(
            with: ImageRequest(id: "first") {
                await gate.pass()
                return png
            }
        )
        await gate.begun.value
        let waiting = pipeline.imageTask(with: ImageRequest(id: "waiting", data: { png }))
        while pipeline.originals.fetches.pendingCount < 1, !Task.isCancelled { await Task.yield() }
        let skipping = ImageRequest(id: "skipping", data: { png }, options: .skipDataLoadingQueue)
        _ = try await pipeline.image(for: skipping)
        #expect(waiting.status.result == nil)
        gate.open.resolve(())
        _ = try await (first.image, waiting.image)
    }

    // Cancelling cancels the closure's task.
    @Test func cancellingReachesAClosure() async {
        let gate = TaskTestGate()
        let pipeline = TestPipeline.make(HeldLoader())
        let task = pipeline.imageTask(
            with: ImageRequest(id: "one") {
                gate.end(wasCancelled: await gate.passUnlessCancelled())
                return Data([1])
            }
        )
        await gate.begun.value
        task.cancel()
        #expect(await gate.wasCancelled.value)
        #expect(await TestPipeline.code { try await task.image } == .cancelled)
    }

    // An image from a closure is processed, and is not stored as an original.
    @Test func anImageOfAClosureIsProcessed() async throws {
        let cache = MemoryDataCache()
        let pipeline = TestPipeline.make(HeldLoader()) { $0.dataCache = cache }
        let request = ImageRequest(
            id: "picture",
            image: { try TestPipeline.container() },
            processors: [TestProcessor(identifier: "same")]
        )
        let response = try await pipeline.imageTask(with: request).response
        #expect(response.image.size == PixelSize(width: 2, height: 2))
        #expect(response.cacheType == nil)
        #expect(await cache.cachedData(for: CacheKey.original(of: request).description) == nil)
        #expect(await TestPipeline.code { try await pipeline.data(for: request) } != nil)
    }

    // MARK: - Local sources

    // Local originals are not stored, and schemes may be in uppercase (Nuke's fileURLIsNotStoredInTheDataCache).
    @Test func localSourcesAreNotKept() async throws {
        let directory = try TestDirectory()
        let path = try directory.write(png, to: "a.png")
        let cache = MemoryDataCache()
        let pipeline = TestPipeline.make(HeldLoader()) {
            $0.dataCache = cache
            $0.fileAccess = FileAccess(roots: [directory.path])
        }
        let base64 = png.base64EncodedString()
        for text in [
            "file://\(path)", "FILE://\(path)", "data:image/png;base64,\(base64)", "DATA:image/png;base64,\(base64)",
        ] {
            let request = ImageRequest(url: URL(string: text))
            let response = try await pipeline.imageTask(with: request).response
            #expect(response.image.size == PixelSize(width: 16, height: 8))
            #expect(response.cacheType == nil)
            #expect(try await pipeline.data(for: request).data == png)
            #expect(await cache.cachedData(for: CacheKey.original(of: request).description) == nil)
        }
    }

    // Malformed data URL.
    @Test(arguments: ["data:image/png;base64", "data:;base64,?!", "data:image/png,%ff"])
    func aBrokenDataURLIsRefused(_ text: String) async {
        let pipeline = TestPipeline.make(HeldLoader())
        let failure = await TestPipeline.failure { try await pipeline.image(for: ImageRequest(url: URL(string: text))) }
        #expect(failure?.code == .invalidURL && failure?.isRetryable == false)
    }

    @Test(arguments: ["data:image/png;base64", "data:;base64,?!", "data:;base64,AAA", "data:;base64,AA=="])
    func base64IsReadStrictly(_ text: String) async throws {
        let url = try #require(URL(string: text))
        let pipeline = TestPipeline.make(HeldLoader())
        let code = await TestPipeline.code { try await pipeline.data(for: ImageRequest(url: url)) }
        #expect(code == (text.hasSuffix("==") ? nil : .invalidURL))
    }
}
