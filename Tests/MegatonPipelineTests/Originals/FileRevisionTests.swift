import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Local files have no validators: cached results are used as long as the file's size and modification time stay.
@Suite(.timeLimit(.minutes(2))) struct FileRevisionTests {
    private let old = TestImage.quarters(width: 64, height: 64)
    private let new = TestImage.quarters(width: 32, height: 32)

    /// A folder with one file, and pipelines that may read it.
    private struct Site {
        let directory: TestDirectory
        let url: URL

        init(_ data: Data) throws {
            directory = try TestDirectory()
            url = URL(fileURLWithPath: try directory.write(data, to: "a.png"))
        }

        func probe(
            _ cache: CountingDataCache = CountingDataCache(),
            _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
        ) -> PipelineProbe {
            PipelineProbe(cache) {
                $0.fileAccess = FileAccess(roots: [directory.path])
                $0.dataCachePolicy = .storeEncodedImages
                change(&$0)
            }
        }

        /// - Parameter seconds: modification time in seconds since 1970.
        func write(_ data: Data, at seconds: Double) throws {
            try directory.write(data, to: "a.png")
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: seconds)],
                ofItemAtPath: url.path(percentEncoded: false)
            )
        }
    }

    /// The image's width, and whether a cache had it.
    private func look(_ pipeline: ImagePipeline, _ request: ImageRequest) async throws -> String {
        let response = try await pipeline.imageTask(with: request).response
        return "\(response.image.size.width) \(response.cacheType == nil ? "made" : "kept")"
    }

    /// From memory, from a data cache, and from a data cache that several pipelines share.
    @Test(arguments: ["memory", "data cache", "shared"], [[], ["1", "2"]])
    func aChangedFileIsANewImage(_ place: String, _ steps: [String]) async throws {
        let site = try Site(old)
        let cache = CountingDataCache()
        func probe() -> PipelineProbe {
            site.probe(cache) { if place != "memory" { $0.imageCache = nil } else { $0.dataCache = nil } }
        }
        let first = probe()
        func look() async throws -> String {
            let probe = place == "shared" ? probe() : first
            let found = try await self.look(probe.pipeline, probe.request(site.url, steps))
            await probe.settle()
            return found
        }
        #expect(try await look() == "64 made")
        #expect(try await look() == "64 kept")
        try site.write(new, at: 1_000_000)
        #expect(try await look() == "32 made")
        #expect(try await look() == "32 kept")
        // The same size as before: only the time differs.
        try site.write(new, at: 1_000_001)
        #expect(try await look() == "32 made")
        // The same time as before: only the size differs.
        try site.write(old, at: 1_000_001)
        #expect(try await look() == "64 made")
    }

    @Test func bytesOfAChangedFileAreNew() async throws {
        let site = try Site(old)
        let probe = site.probe()
        let request = probe.request(site.url, ["1"])
        _ = try await probe.pipeline.image(for: request)
        await probe.settle()
        let kept = try await probe.pipeline.data(for: request).data
        #expect(probe.cache.writes.count == 1 && kept != old)
        try site.write(new, at: 1_000_000)
        #expect(try await probe.pipeline.data(for: request).data == new)
    }

    /// A synchronous lookup uses the file revision seen last; an async one reads it anew.
    @Test func lookingByHand() async throws {
        let site = try Site(old)
        let probe = site.probe()
        let (cache, request) = (probe.pipeline.cache, probe.request(site.url, ["1"]))
        #expect(cache[request] == nil)
        let response = try await probe.pipeline.imageTask(with: request).response
        await probe.settle()
        #expect(cache[request]?.image.size.width == 64)
        #expect(await cache.containsCachedImage(for: request, caches: .disk))
        try site.write(new, at: 1_000_000)
        #expect(cache[request]?.image.size.width == 64, "the file was not looked up yet")
        #expect(await cache.cachedImage(for: request) == nil)
        #expect(cache[request] == nil, "the file was looked up")
        #expect(cache[response.request]?.image.size.width == 64, "an answer knows what it is of")
        _ = try await probe.pipeline.image(for: response.request)
        #expect(cache[request]?.image.size.width == 32, "and a load looks in any case")
        await probe.settle()
        await cache.removeCachedImage(for: request)
        #expect(await !cache.containsCachedImage(for: request))
    }

    @Test func aFileThatIsGoneIsNotFound() async throws {
        let site = try Site(old)
        let probe = site.probe()
        let request = probe.request(site.url)
        _ = try await probe.pipeline.image(for: request)
        await probe.settle()
        try FileManager.default.removeItem(at: site.url)
        #expect(await TestPipeline.code { try await probe.pipeline.image(for: request) } == .notFound)
        await probe.pipeline.cache.removeCachedImage(for: request)
        #expect(probe.pipeline.cache[request] == nil && probe.cache.entries.isEmpty)
    }

    @Test func aFileThatChangesWhileItIsReadIsAnError() throws {
        let site = try Site(old)
        let access = FileAccess(roots: [site.directory.path])
        let file = try access.file(at: site.url.path(percentEncoded: false))
        #expect(try access.read(file, limit: .max) == old)
        // The same size as before.
        try site.write(old, at: 1_000_000)
        let error = #expect(throws: ImagePipeline.Error.self) { try access.read(file, limit: .max) }
        #expect(error?.code == .incompleteBody)
    }

    @Test func prefetchingLooksAtFiles() async throws {
        let site = try Site(old)
        let probe = site.probe()
        let (completions, continuation) = AsyncStream.makeStream(of: Void.self)
        let prefetcher = ImagePrefetcher(pipeline: probe.pipeline, didComplete: { continuation.yield() })
        var iterator = completions.makeAsyncIterator()
        for data in [old, new] {
            try site.write(data, at: Double(data.count))
            prefetcher.startPrefetching(with: [site.url])
            _ = await iterator.next()
        }
        #expect(probe.pipeline.cache[site.url]?.image.size.width == 32)
    }
}
