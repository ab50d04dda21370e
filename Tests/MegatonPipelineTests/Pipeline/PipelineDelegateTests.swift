import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct PipelineDelegateTests {
    private struct NoToken: Error {}

    private let url = TestPipeline.url

    // MARK: - willLoadData

    // Nuke's willLoadDataCanModifyRequest, for images, bytes and renditions.
    @Test func aRequestCanBeChangedBeforeItIsSent() async throws {
        let loader = HeldLoader(isHeld: false)
        let delegate = TestDelegate {
            $0.willLoad = { urlRequest, request in
                var urlRequest = urlRequest
                urlRequest.setValue(
                    "Bearer \(request.url?.lastPathComponent ?? "")",
                    forHTTPHeaderField: "Authorization"
                )
                return urlRequest
            }
        }
        let pipeline = TestPipeline.make(loader, delegate: delegate)
        _ = try await pipeline.image(for: TestPipeline.url("image"))
        _ = try await pipeline.data(for: TestPipeline.url("data"))
        _ = try await pipeline.renditions([Rendition(width: 4)], for: ImageRequest(url: TestPipeline.url("rendition")))
        try await pipeline.prefetch(ImageRequest(url: TestPipeline.url("prefetch")))
        let sent = loader.requests.values.map { $0.value(forHTTPHeaderField: "Authorization") }
        #expect(sent == ["Bearer image", "Bearer data", "Bearer rendition", "Bearer prefetch"])
        // Requests for bytes have no events.
        #expect(delegate.created.count == 1)
    }

    // Nuke's willLoadDataThrowingCancelsWithDataLoadingFailed. The slot is released.
    @Test func anErrorOfWillLoadDataIsDataLoadingFailed() async throws {
        let loader = HeldLoader(isHeld: false)
        let delegate = TestDelegate {
            $0.willLoad = { urlRequest, _ in
                if urlRequest.url?.lastPathComponent == "a" { throw NoToken() }
                return urlRequest
            }
        }
        let pipeline = TestPipeline.make(loader, delegate: delegate) { $0.fetchConcurrency = 1 }
        let error = await TestPipeline.failure { try await pipeline.image(for: url) }
        #expect(error?.code == .dataLoadingFailed)
        #expect(error?.message.contains("NoToken") == true)
        #expect(loader.requests.count == 0)
        _ = try await pipeline.image(for: TestPipeline.url("b"))
        #expect(loader.paths == ["b"])
    }

    // Nuke's willLoadDataIsNotCalledForCustomDataFetch; nor for local sources.
    @Test func itIsNotAskedAboutClosuresAndLocalSources() async throws {
        let png = TestPipeline.png
        let directory = try TestDirectory()
        let path = try directory.write(png, to: "a.png")
        let delegate = TestDelegate { $0.willLoad = { _, _ in throw NoToken() } }
        let pipeline = TestPipeline.make(HeldLoader(), delegate: delegate) {
            $0.fileAccess = FileAccess(roots: [directory.path])
        }
        let requests = [
            ImageRequest(id: "closure", data: { png }),
            ImageRequest(id: "picture", image: { try TestPipeline.container() }),
            ImageRequest(url: URL(fileURLWithPath: path)),
            ImageRequest(url: URL(string: "data:image/png;base64,\(png.base64EncodedString())")),
        ]
        for request in requests { _ = try await pipeline.image(for: request) }
        #expect(delegate.loads.count == 0)
    }

    // Nuke's cancellationDuringWillLoadDataPreventsDataLoading; the slot is released.
    @Test func cancellingMeanwhilePreventsTheLoad() async throws {
        let gate = TaskTestGate()
        let loader = HeldLoader(isHeld: false)
        let delegate = TestDelegate {
            $0.willLoad = { urlRequest, _ in
                if urlRequest.url?.lastPathComponent == "a" { await gate.pass() }
                return urlRequest
            }
        }
        let pipeline = TestPipeline.make(loader, delegate: delegate) { $0.fetchConcurrency = 1 }
        let task = pipeline.imageTask(with: url)
        await gate.begun.value
        task.cancel()
        #expect(await TestPipeline.code { try await task.response } == .cancelled)
        let next = pipeline.imageTask(with: TestPipeline.url("b"))
        gate.open.resolve(())
        _ = try await next.response
        #expect(loader.paths == ["b"])
        while pipeline.originals.fetches.runningCount > 0, !Task.isCancelled { await Task.yield() }
    }

    // Called once for all requests that share a download, and not at all for a cache hit.
    @Test func itIsAskedOnceForEachLoad() async throws {
        let loader = HeldLoader()
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(loader, delegate: delegate) { $0.dataCache = MemoryDataCache() }
        let tasks = (0..<3).map { number in
            pipeline.imageTask(with: ImageRequest(url: url, processors: [TestProcessor(identifier: "\(number)")]))
        }
        await loader.requests.wait(for: 1)
        loader.release()
        for task in tasks { _ = try await task.response }
        // The entry is stored after the response is delivered.
        while await !pipeline.cache.containsData(for: ImageRequest(url: url)), !Task.isCancelled { await Task.yield() }
        _ = try await pipeline.data(for: url)
        _ = try await pipeline.image(for: url)
        #expect(delegate.loads.count == 1)
    }

    // A delegate that changes the URL cannot bypass the URL policy.
    @Test func anotherURLMustBeAllowedToo() async {
        let loader = HeldLoader(isHeld: false)
        let delegate = TestDelegate { $0.willLoad = { _, _ in URLRequest(url: URL(fileURLWithPath: "/etc/passwd")) } }
        let pipeline = TestPipeline.make(loader, delegate: delegate) {
            $0.urlPolicy.schemes = ["http", "https"]
        }
        let error = await TestPipeline.failure { try await pipeline.image(for: url) }
        #expect(error?.code == .forbidden && error?.stage == .load && error?.url == url.absoluteString)
        #expect(loader.requests.count == 0)
    }

    // MARK: - Components chosen by the delegate

    // The delegate's dataLoader(for:).
    @Test func eachRequestMayHaveALoaderOfItsOwn() async throws {
        let (usual, special) = (HeldLoader(isHeld: false), HeldLoader(isHeld: false))
        let delegate = TestDelegate { $0.loader = { $0.userInfo["special"] == nil ? nil : special } }
        let pipeline = TestPipeline.make(usual, delegate: delegate)
        _ = try await pipeline.image(for: url)
        _ = try await pipeline.image(for: ImageRequest(url: TestPipeline.url("b"), userInfo: ["special": true]))
        #expect(usual.paths == ["a"])
        #expect(special.paths == ["b"])
    }

    // The delegate's imageCache(for:): nil means no cache.
    @Test func aRequestMayHaveNoMemoryCache() async throws {
        let cache = ImageCache()
        let delegate = TestDelegate { $0.keepsInMemory = false }
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false), delegate: delegate) { $0.imageCache = cache }
        _ = try await pipeline.image(for: url)
        #expect(cache.totalCount == 0)
    }

    // The delegate's cacheKey(for:) is the key in memory, whatever the URL.
    @Test func aDelegateMayNameWhatIsKept() async throws {
        let loader = HeldLoader(isHeld: false)
        let pipeline = TestPipeline.make(loader, delegate: TestDelegate { $0.cacheKey = "one" }) {
            $0.imageCache = ImageCache()
        }
        _ = try await pipeline.image(for: url)
        #expect(try await pipeline.imageTask(with: TestPipeline.url("b")).response.cacheType == .memory)
        #expect(loader.requests.count == 1)
    }

    // All events of all tasks, each starting with `created`.
    @Test func itIsNotifiedOfEachTask() async throws {
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false), delegate: delegate)
        for name in ["a", "b"] { _ = try await pipeline.image(for: TestPipeline.url(name)) }
        let events = delegate.events.values.filter { !$0.contains("/") }
        #expect(events == ["1 created", "1 started", "1 finished", "2 created", "2 started", "2 finished"])
    }
}
