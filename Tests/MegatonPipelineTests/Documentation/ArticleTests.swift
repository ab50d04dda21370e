import Foundation
import Logging
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Runs the code of the articles.
@Suite(.timeLimit(.minutes(2))) struct ArticleTests {
    /// A folder with one image of 640 x 480 pixels.
    private func site() throws -> (folder: TestDirectory, url: URL) {
        let folder = try TestDirectory()
        let file = try folder.write(TestImage.quarters(width: 640, height: 480), to: "cat.png")
        return (folder, URL(fileURLWithPath: file))
    }

    @Test func aFirstImage() async throws {
        let (directory, url) = try site()
        let folder = directory.path
        let pipeline = ImagePipeline {
            $0.fileAccess = FileAccess(roots: [folder])
        }
        var request = ImageRequest(url: url)
        request.thumbnail = ImageRequest.ThumbnailOptions(maxPixelSize: 320)
        let image = try await pipeline.image(for: request)
        let webp = ImageEncoders.Vips(format: .webp, quality: 80).encode(image)
        #expect(image.size == PixelSize(width: 320, height: 240))
        #expect(webp.flatMap { AssetType($0) } == .webp)
    }

    @Test func severalRenditions() async throws {
        let (directory, url) = try site()
        let pipeline = ImagePipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let output = URL(fileURLWithPath: directory.path)
        let renditions = [
            Rendition(name: "card", width: 160, height: 160, fit: .cover, format: .webp),
            Rendition(name: "page", width: 400),
        ]
        for response in try await pipeline.renditions(renditions, for: ImageRequest(url: url)) {
            let name = "\(response.rendition.name).\(response.rendition.format.fileExtension)"
            try response.data.write(to: output.appending(path: name))
        }
        #expect(directory.files == ["card.webp", "cat.png", "page.jpg"])
    }

    @Test func aTaskReportsItsEvents() async throws {
        let (directory, url) = try site()
        let pipeline = ImagePipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        var size: PixelSize?
        let task = pipeline.imageTask(with: url)
        for await event in task.events {
            switch event {
            case .started, .preview: break
            case .progress(let progress): print("\(progress.completed) of \(progress.total) bytes")
            case .finished(let result): size = try result.get().image.size
            }
        }
        #expect(size == PixelSize(width: 640, height: 480))
    }

    @Test func anErrorSaysWhetherToTryAgain() async throws {
        let directory = try TestDirectory()
        let pipeline = ImagePipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let url = URL(fileURLWithPath: "\(directory.path)/missing.png")
        let logger = Logger(label: "article")
        var mayTryAgain = true
        do throws(ImagePipeline.Error) {
            _ = try await pipeline.image(for: url)
        } catch {
            logger.info("no image", metadata: ["code": "\(error.code.rawValue)", "why": "\(error.message)"])
            mayTryAgain = error.isRetryable
        }
        #expect(!mayTryAgain)
    }

    @Test func layersOfCaches() async throws {
        let (directory, url) = try site()
        let folder = URL(fileURLWithPath: "\(directory.path)/cache")
        let disk = try DataCache(path: folder)
        let pipeline = ImagePipeline {
            $0.fileAccess = FileAccess(roots: [directory.path])
            $0.imageCache = ImageCache(costLimit: 256 * 1024 * 1024)
            $0.dataCache = LayeredDataCache([MemoryDataCache(), disk])
            $0.dataCachePolicy = .automatic
        }
        let request = ImageRequest(url: url)
        _ = try await pipeline.image(for: request)
        #expect(pipeline.cache[request] != nil)
        await pipeline.cache.removeCachedImage(for: request)
        #expect(pipeline.cache[request] == nil)
        await disk.flush()
    }

    @Test func customLimits() async throws {
        let (directory, url) = try site()
        var limits = RenderLimits()
        limits.pixels = 300_000
        limits.time = .seconds(10)
        let pipeline = ImagePipeline {
            $0.fileAccess = FileAccess(roots: [directory.path])
            $0.renderLimits = limits
            $0.maximumDataSize = 8 * 1024 * 1024
            $0.rateLimiter = RateLimiter(rate: 20, burst: 5)
        }
        let error = await #expect(throws: ImagePipeline.Error.self) { try await pipeline.image(for: url) }
        #expect(error?.code == .imageTooLarge)
    }

    @Test func prefetching() async throws {
        let (directory, url) = try site()
        let pipeline = ImagePipeline {
            $0.fileAccess = FileAccess(roots: [directory.path])
            $0.imageCache = ImageCache()
        }
        let (outcomes, continuation) = AsyncStream.makeStream(of: ImagePrefetcher.Outcome.self)
        let prefetcher = ImagePrefetcher(
            pipeline: pipeline,
            didFinish: { continuation.yield($0) },
            didComplete: { continuation.finish() }
        )
        prefetcher.startPrefetching(with: [url])
        for await (request, result) in outcomes {
            if case .failure(let error) = result { print("\(request): \(error)") }
        }
        #expect(pipeline.cache[url] != nil)
        prefetcher.stopPrefetching(with: [url])
    }

    @Test func optionsOfARequest() async throws {
        let (directory, url) = try site()
        let pipeline = ImagePipeline {
            $0.fileAccess = FileAccess(roots: [directory.path])
            $0.imageCache = ImageCache()
        }
        _ = try await pipeline.image(for: ImageRequest(url: url, processors: [.resize(width: 320), .gaussianBlur()]))

        var request = ImageRequest(url: url, processors: [.resize(width: 320), .gaussianBlur()], priority: .high)
        request.options = [.reloadIgnoringCachedData, .disableMemoryCacheWrites]
        let response = try await pipeline.imageTask(with: request).response
        let wasInMemory = response.cacheType == .memory

        #expect(!wasInMemory && response.image.size == PixelSize(width: 320, height: 240))
    }

    @Test func aTaskIsSteered() async throws {
        let (directory, url) = try site()
        let pipeline = ImagePipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let task = pipeline.imageTask(with: url)
        task.priority = .veryHigh
        task.cancel()
        #expect(task.priority == .veryHigh && task.status.result != nil)
    }

    @Test func customImagesInMemory() throws {
        let image = try #require(PlatformImage(width: 1, height: 1, bands: 3, pixels: Data([1, 2, 3])))
        let request: ImageRequest = "https://example.org/a.png"
        let pipeline = ImagePipeline { $0.imageCache = FewImages() }
        pipeline.cache[request] = ImageContainer(image: image)
        let kept = pipeline.cache[request]
        #expect(kept?.image === image)
        pipeline.configuration.imageCache?.removeAll()
        #expect(pipeline.cache[request] == nil)
    }
}
