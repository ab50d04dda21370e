import AsyncHTTPClient
import Foundation
import GRDB
import MegatonPipeline
import MegatonPlugins
import Testing

/// A real pipeline with third-party libraries in place of the built-in loader and cache.
@Suite(.timeLimit(.minutes(2))) struct PluginPipelineTests {
    private let small = Rendition(width: 32, height: 32, format: .png)

    // Seeds 000 to 003: a loader on a networking library, a cache on a caching library.
    @Test func loadsRendersAndFindsItAgain() async throws {
        let directory = try TestDirectory()
        let path = "\(directory.path)/cache.sqlite"
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            var found: [Data] = []
            // The second pipeline only has the file of the first.
            for isCached in [false, true] {
                let pipeline = try Self.pipeline(path)
                let image = try await pipeline.renditions([small], for: .init(url: origin.url("/a.png")))[0]
                #expect((image.source == .cache) == isCached && image.size == PixelSize(width: 32, height: 32))
                found.append(image.data)
            }
            #expect(found[0] == found[1] && origin.total == 1)
            // Another size needs the original, which is stored as well.
            let metrics = PipelineMetrics()
            let other = Rendition(width: 16, height: 16, format: .webp)
            let pipeline = try Self.pipeline(path)
            _ = try await pipeline.renditions([other], for: .init(url: origin.url("/a.png")), metrics: metrics)
            #expect(metrics.counts.originalHits == 1 && metrics.counts.renders == 1 && origin.total == 1)
        }
    }

    @Test func manyRequestsAreOneFetch() async throws {
        let directory = try TestDirectory()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = try Self.pipeline("\(directory.path)/cache.sqlite")
            origin.hold()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        _ = try await pipeline.renditions([small], for: .init(url: origin.url("/a.png")))
                    }
                }
                await origin.waitForRequests("/a.png", count: 1)
                origin.release()
                try await group.waitForAll()
            }
            #expect(origin.total == 1)
        }
    }

    @Test func failuresOfTheLoaderAreErrors() async throws {
        let directory = try TestDirectory()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { path in
            path == "/cut" ? .init(body: image.prefix(100), announcedLength: image.count) : .init(status: 404)
        }) { (origin) async throws in
            let pipeline = try Self.pipeline("\(directory.path)/cache.sqlite")
            for path in ["/cut", "/missing"] {
                await #expect(throws: ImagePipeline.Error.self, "\(path)") {
                    try await pipeline.renditions([small], for: .init(url: origin.url(path)))
                }
            }
        }
    }

    private static func pipeline(_ path: String) throws -> ImagePipeline {
        let cache = try GRDBCache(DatabasePool(path: path))
        return ImagePipeline {
            $0.dataLoader = AsyncHTTPClientLoader()
            $0.dataCache = cache
        }
    }
}
