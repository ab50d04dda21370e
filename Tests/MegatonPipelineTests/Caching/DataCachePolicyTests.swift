import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct DataCachePolicyTests {
    typealias Policy = ImagePipeline.DataCachePolicy

    /// A set of requests and the entries they must leave in the cache.
    struct Case: Sendable, CustomTestStringConvertible {
        let policy: Policy
        /// The processors of each request.
        let requests: [[String]]
        let keepsOriginal: Bool
        /// The processors of each image that is stored.
        let images: [[String]]

        init(_ policy: Policy, _ requests: [[String]], original: Bool, images: [[String]] = []) {
            self.policy = policy
            self.requests = requests
            keepsOriginal = original
            self.images = images
        }

        var testDescription: String { "\(policy) \(requests)" }
    }

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

    private func check(_ test: Case, _ probe: PipelineProbe, _ url: URL) {
        let original = test.keepsOriginal ? [probe.original(probe.request(url))] : []
        let images = test.images.map { probe.image(probe.request(url, $0)) }
        #expect(probe.cache.writes.sorted() == (original + images).sorted())
        #expect(probe.encodes == images.count)
    }

    // Entries that image requests leave in the data cache, with exact counts of writes and encodings.
    @Test(arguments: [
        Case(.storeOriginalData, [["1"]], original: true),
        Case(.storeOriginalData, [[]], original: true),
        Case(.storeOriginalData, [["1"], []], original: true),
        Case(.automatic, [["1"]], original: false, images: [["1"]]),
        Case(.automatic, [[]], original: true),
        Case(.automatic, [["1"], []], original: true, images: [["1"]]),
        Case(.storeEncodedImages, [["1"]], original: false, images: [["1"]]),
        Case(.storeEncodedImages, [[]], original: false, images: [[]]),
        Case(.storeEncodedImages, [["1"], []], original: false, images: [["1"], []]),
        Case(.storeAll, [["1"]], original: true, images: [["1"]]),
        Case(.storeAll, [[]], original: true),
        Case(.storeAll, [["1"], []], original: true, images: [["1"]]),
        Case(.storeNothing, [["1"], []], original: false),
        Case(.storeAll, [["1"], ["1"]], original: true, images: [["1"]]),
    ]) func imagesAreKeptByThePolicy(test: Case) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = test.policy }
            origin.hold()
            let tasks = test.requests.map { probe.pipeline.imageTask(with: probe.request(origin.url("/a"), $0)) }
            // Each task, and each distinct step that waits for the step before it.
            let steps = Set(test.requests.filter { !$0.isEmpty }).count
            await probe.waitForImages(tasks.count + steps)
            await origin.waitForRequests("/a", count: 1)
            origin.release()
            for task in tasks { _ = try await task.response }
            await probe.settle()
            check(test, probe, origin.url("/a"))
            #expect(origin.total == 1)
        }
    }

    // The same for requests for bytes, which are never encoded.
    @Test(arguments: [
        Case(.storeOriginalData, [["1"]], original: true),
        Case(.storeOriginalData, [[]], original: true),
        Case(.storeOriginalData, [["1"], []], original: true),
        Case(.automatic, [["1"]], original: false),
        Case(.automatic, [[]], original: true),
        Case(.automatic, [["1"], []], original: true),
        Case(.storeEncodedImages, [["1"]], original: false),
        Case(.storeEncodedImages, [[]], original: false),
        Case(.storeEncodedImages, [["1"], []], original: false),
        Case(.storeAll, [["1"]], original: true),
        Case(.storeAll, [[]], original: true),
        Case(.storeAll, [["1"], []], original: true),
    ]) func dataAreKeptByThePolicy(test: Case) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = test.policy }
            origin.hold()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for steps in test.requests {
                    group.addTask { _ = try await probe.pipeline.data(for: probe.request(origin.url("/a"), steps)) }
                }
                await probe.waitForOriginals(test.requests.count)
                await origin.waitForRequests("/a", count: 1)
                origin.release()
                try await group.waitForAll()
            }
            check(test, probe, origin.url("/a"))
            #expect(origin.total == 1 && probe.decodes == 0)
        }
    }

    // Prefetching stores the original if the policy stores it for a request without processors.
    @Test(arguments: Policy.allCases) func prefetchingKeepsTheOriginal(policy: Policy) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = policy }
            let request = probe.request(origin.url("/a"))
            try await probe.pipeline.prefetch(request)
            let keeps = [.automatic, .storeAll, .storeReused, .storeOriginalData].contains(policy)
            #expect(probe.cache.writes == (keeps ? [probe.original(request)] : []))
        }
    }

    // A result made from an image in memory is stored without a download.
    @Test func aResultOfAnImageInMemoryIsKept() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .automatic }
            let picture = try ImageDecoders.Default().decode(image).image
            probe.pipeline.cache[origin.url("/a")] = ImageContainer(image: picture)
            _ = try await probe.pipeline.image(for: probe.request(origin.url("/a"), ["1"]))
            await probe.settle()
            check(Case(.automatic, [], original: false, images: [["1"]]), probe, origin.url("/a"))
            #expect(origin.total == 0)
        }
    }

    // Except if the origin forbids storing, and never for longer than the original is fresh.
    @Test func aResultOfAnImageInMemoryHoldsNoLongerThanItsOriginal() async throws {
        try await OriginServer.run(answer: { [image] path in
            .image(image, headers: [("Cache-Control", path == "/a" ? "max-age=100" : "no-store")])
        }) { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .automatic }
            for path in ["/a", "/b"] {
                _ = try await probe.pipeline.image(for: probe.request(origin.url(path)))
                _ = try await probe.pipeline.image(for: probe.request(origin.url(path), ["1"]))
            }
            await probe.settle()
            let (plain, made) = (probe.request(origin.url("/a")), probe.request(origin.url("/a"), ["1"]))
            #expect(probe.cache.writes == [probe.original(plain), probe.image(made)])
            let entry = await probe.pipeline.configuration.coordinator.lookUp([.image(of: made)])[0]
            #expect(try #require(entry).metadata.lifetime <= 100)
            #expect(origin.total == 2)
        }
    }

    @Test func aResultIsFreshForNoLongerThanItsOriginal() {
        let made = Date(timeIntervalSince1970: 1_000_000)
        let provenance = ImageProvenance(CachedData.Metadata(lifetime: 100), since: made)
        #expect(provenance.metadata(at: made + 40)?.lifetime == 60)
        #expect(provenance.metadata(at: made + 130)?.lifetime == 0)
    }

    // A thumbnail is not a processor: both the original and the thumbnail are stored.
    @Test(arguments: [Policy.automatic, .storeAll]) func aThumbnailLeavesBoth(policy: Policy) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = policy }
            var request = probe.request(origin.url("/a"))
            request.thumbnail = .init(maxPixelSize: 16)
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            #expect(probe.cache.writes.sorted() == [probe.original(request), probe.image(request)].sorted())
            #expect(probe.encodes == 1)
        }
    }

    // A thumbnail is made from a stored original.
    @Test func thumbnailsAreMadeOfTheKeptOriginal() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            await probe.keepOriginal(image, of: probe.request(origin.url("/a")))
            var request = probe.request(origin.url("/a"))
            request.thumbnail = .init(maxPixelSize: 16)
            let response = try await probe.pipeline.imageTask(with: request).response
            #expect(response.image.size == PixelSize(width: 16, height: 16))
            #expect(response.cacheType == .disk)
            #expect(origin.total == 0)
        }
    }

    // Local sources are not stored as originals; images made from them are.
    @Test(arguments: Policy.allCases) func localOriginalsAreNotKept(policy: Policy) async throws {
        let directory = try TestDirectory()
        let url = URL(fileURLWithPath: try directory.write(image, to: "a.png"))
        let probe = PipelineProbe {
            $0.dataCachePolicy = policy
            $0.fileAccess = FileAccess(roots: [directory.path])
        }
        _ = try await probe.pipeline.image(for: probe.request(url, ["1"]))
        _ = try await probe.pipeline.data(for: probe.request(url))
        await probe.settle()
        let keeps = [.automatic, .storeAll, .storeReused, .storeEncodedImages].contains(policy)
        #expect(probe.cache.writes == (keeps ? [probe.image(probe.request(url, ["1"]))] : []))
    }

    // A reload asks the origin, and stores its response.
    @Test func reloadingIgnoresWhatIsKept() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1"], options: .reloadIgnoringCachedData)
            for count in 1...2 {
                let response = try await probe.pipeline.imageTask(with: request).response
                #expect(response.cacheType == nil)
                await probe.settle()
                #expect(origin.total == count && probe.steps == ["1": count])
                #expect(probe.cache.writes.count == 2 * count && probe.memory.writes.count == count)
                _ = try await probe.pipeline.data(for: probe.request(origin.url("/a")))
                #expect(origin.total == count, "it was kept")
            }
            #expect(probe.memory.reads == 0)
        }
    }

    // Only cached data of any kind is returned.
    @Test(arguments: ["memory", "image", "original", "part"]) func onlyWhatIsKept(place: String) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1"], options: .returnCacheDataDontLoad)
            let picture = try ImageDecoders.Default().decode(image).image
            switch place {
            case "memory": probe.pipeline.cache[request] = ImageContainer(image: picture)
            case "part": probe.pipeline.cache[origin.url("/a")] = ImageContainer(image: picture)
            case "image": await probe.keep(image, for: .image(of: request))
            default: await probe.keepOriginal(image, of: request)
            }
            #expect(try await probe.pipeline.image(for: request).size == PixelSize(width: 64, height: 64))
            #expect(origin.total == 0)
        }
    }

    // An error if nothing is cached.
    @Test func aRequestForCachedDataOnlyIsNotLoaded() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let pipeline = probe.pipeline
            let request = probe.request(origin.url("/a"), ["1"], options: .returnCacheDataDontLoad)
            let expected = ImagePipeline.Error.Code.dataMissingInCache
            #expect(
                await code { () async throws(ImagePipeline.Error) in try await pipeline.image(for: request) }
                    == expected
            )
            #expect(
                await code { () async throws(ImagePipeline.Error) in try await pipeline.data(for: request) } == expected
            )
            #expect(origin.total == 0 && probe.decodes == 0)
            await probe.keepOriginal(image, of: request)
            #expect(try await pipeline.data(for: request).data == image)
            var reload = request
            reload.options.insert(.disableDiskCacheReads)
            #expect(
                await code { () async throws(ImagePipeline.Error) in try await pipeline.data(for: reload) } == expected
            )
            // Closures count as sources too.
            let calls = TaskTestBox(0)
            let bytes: @Sendable () async throws -> Data = { [image] in
                calls.withLock { $0 += 1 }
                return image
            }
            let picture: @Sendable () async throws -> ImageContainer = {
                calls.withLock { $0 += 1 }
                return try TestPipeline.container()
            }
            let option = ImageRequest.Options.returnCacheDataDontLoad
            for request in [
                ImageRequest(id: "b", data: bytes, options: option),
                ImageRequest(id: "p", image: picture, options: option),
            ] {
                #expect(await TestPipeline.code { try await pipeline.image(for: request) } == expected)
            }
            #expect(calls.value == 0)
        }
    }

    // A request that disables writes stores nothing, whatever the policy.
    @Test(arguments: Policy.allCases) func aRequestThatDisablesWritesStoresNothing(policy: Policy) async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = policy }
            for (number, steps) in [[], ["1"]].enumerated() {
                let request = probe.request(origin.url("/\(number)"), steps, options: .disableDiskCacheWrites)
                _ = try await probe.pipeline.image(for: request)
                _ = try await probe.pipeline.data(for: request)
                try await probe.pipeline.prefetch(request)
            }
            await probe.settle()
            #expect(probe.cache.writes.isEmpty && probe.encodes == 0)
        }
    }

    // Fault: it ended the flight without an entry, which removed the one that the origin had just confirmed.
    @Test func aRequestThatDisablesWritesKeepsTheEntryThatIsConfirmed() async throws {
        let answer: @Sendable (OriginServer.Request) -> OriginServer.Answer = { [image] request in
            let headers = [("Cache-Control", "no-cache"), ("ETag", "\"1\"")]
            if request.headers["if-none-match"] != nil { return OriginServer.Answer(status: 304, headers: headers) }
            return .image(image, headers: headers)
        }
        try await OriginServer.run(responding: answer) { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeOriginalData }
            let request = probe.request(origin.url("/a"))
            _ = try await probe.pipeline.data(for: request)
            await probe.settle()
            _ = try await probe.pipeline.data(for: probe.request(origin.url("/a"), options: .disableDiskCacheWrites))
            await probe.settle()
            #expect(await probe.cache.cachedData(for: probe.original(request)) != nil)
            #expect(origin.total == 2)
        }
    }

    // A request that joins a download and allows writes has it stored, even if the request that started it does
    // not.
    @Test func aRequestThatJoinsMayHaveTheDownloadStored() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeOriginalData }
            let (first, second) = (
                probe.request(origin.url("/a"), options: .disableDiskCacheWrites), probe.request(origin.url("/a"))
            )
            origin.hold()
            let task = probe.pipeline.imageTask(with: first)
            await origin.waitForRequests("/a", count: 1)
            async let data = probe.pipeline.data(for: second)
            await probe.waitForOriginals(2)
            origin.release()
            _ = try await (task.response, data)
            #expect(probe.cache.writes == [probe.original(second)])
            #expect(origin.total == 1)
        }
    }

    // The same for a request that arrives after the download: its bytes are still in memory.
    @Test func aRequestAfterTheDownloadMayHaveItStored() async throws {
        let cache = CountingDataCache()
        let flights = LocalSingleFlight(cache: cache)
        let request = ImageRequest(url: URL(string: "http://example.com/a")!)
        let key = CacheKey.original(of: request)
        let entry = CachedData(data: image, metadata: .init(lifetime: 100))
        let writer = OriginalCacheWriter(
            flights,
            key,
            SingleFlight.Leader(key: key, token: nil),
            entry,
            isWanted: false
        )
        await writer.isDone()
        #expect(cache.writes.isEmpty)
        for _ in 0..<2 { writer.store() }
        await writer.isDone()
        #expect(cache.writes == [key.description])
    }

    // A claim can be released once, by the request that made it; further releases do nothing.
    @Test func claimsEndOnce() {
        let demand = OriginalDemand()
        let key = OriginalLoadKey(ImageRequest(url: URL(string: "http://example.com/a")!))
        #expect(demand.claim(key, if: false) == nil)
        let first = demand.claim(key, if: true)
        var second = demand.claim(key, if: true)
        first?.end()
        first?.end()
        #expect(second != nil && demand.contains(key))
        second = nil
        #expect(!demand.contains(key))
    }

    // Neither a cached image nor an image made from a cached one is encoded again.
    @Test(arguments: [Policy.automatic, .storeEncodedImages, .storeAll])
    func aCachedImageIsNotEncodedAgain(policy: Policy) async throws {
        try await run { (origin) async throws in
            let first = PipelineProbe { $0.dataCachePolicy = policy }
            _ = try await first.pipeline.image(for: first.request(origin.url("/a"), ["1"]))
            await first.settle()
            first.cache.forgetCounts()
            let probe = PipelineProbe(first.cache) { $0.dataCachePolicy = policy }
            let request = probe.request(origin.url("/a"), ["1"])
            #expect(try await probe.pipeline.imageTask(with: request).response.cacheType == .disk)
            _ = try await probe.pipeline.image(for: probe.request(origin.url("/a"), ["1", "2"]))
            await probe.settle()
            #expect(probe.encodes == 0 && probe.cache.writes.isEmpty)
            #expect(probe.steps == ["2": 1])
            #expect(origin.total == 1)
        }
    }

    // An image made from a stored original is stored, so that it is made once.
    @Test func anImageMadeFromAStoredOriginalIsStored() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe(memory: CountingImageCache()) { $0.imageCache = nil }
            let request = probe.request(origin.url("/a"), ["1"])
            await probe.keepOriginal(image, of: request)
            for _ in 0..<2 {
                _ = try await probe.pipeline.image(for: request)
                await probe.settle()
            }
            #expect(probe.cache.writes == [probe.image(request)])
            #expect(probe.steps == ["1": 1] && origin.total == 0)
        }
    }
}
