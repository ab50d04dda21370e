import Foundation
import MegatonTestSupport

@testable import MegatonHTTP
@testable import MegatonPipeline

/// A pipeline whose caches, decoders, processors and encoder count their calls.
struct PipelineProbe {
    let pipeline: ImagePipeline
    let cache: CountingDataCache
    let memory: CountingImageCache
    let counts: TaskTestBox<[String: Int]>

    init(
        _ cache: CountingDataCache = CountingDataCache(),
        memory: CountingImageCache = CountingImageCache(),
        delegate: (any ImagePipeline.Delegate)? = nil,
        _ change: (inout ImagePipeline.Configuration) -> Void = { _ in }
    ) {
        let counts = TaskTestBox<[String: Int]>([:])
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        configuration.dataCache = cache
        configuration.imageCache = memory
        configuration.makeImageDecoder = { context in
            CountingDecoder(ImageDecoders.Default(thumbnail: context.request.thumbnail), counts)
        }
        configuration.makeImageEncoder = { _ in CountingEncoder(counts) }
        change(&configuration)
        pipeline = ImagePipeline(configuration: configuration, delegate: delegate)
        self.cache = cache
        self.memory = memory
        self.counts = counts
    }

    var decodes: Int { counts.value["decode"] ?? 0 }
    var encodes: Int { counts.value["encode"] ?? 0 }
    /// Number of applications of each processor.
    var steps: [String: Int] { counts.value.filter { !["decode", "encode"].contains($0.key) } }

    /// A request with one counting processor for each name in `steps`.
    func request(_ url: URL, _ steps: [String] = [], options: ImageRequest.Options = []) -> ImageRequest {
        ImageRequest(url: url, processors: steps.map { CountingProcessor(id: $0, counts: counts) }, options: options)
    }

    func original(_ request: ImageRequest) -> String { CacheKey.original(of: request).description }
    func image(_ request: ImageRequest) -> String { pipeline.dataCacheKey(for: request).description }

    /// Stores an original in the cache, as an earlier load would have.
    func keepOriginal(_ data: Data, of request: ImageRequest) async {
        await keep(data, for: .original(of: request))
    }

    func keep(_ data: Data, for key: CacheKey) async {
        let entry = CachedData(data: data, metadata: CachedData.Metadata(type: "image/png", lifetime: 3600))
        await LocalSingleFlight(cache: cache).store(entry, for: key)
        cache.forgetCounts()
    }

    /// Returns once images have `count` subscribers, tasks and steps together.
    func waitForImages(_ count: Int) async {
        while pipeline.images.subscriberCount < count, !Task.isCancelled { await Task.yield() }
    }

    /// Returns once originals have `count` subscribers.
    func waitForOriginals(_ count: Int) async {
        while pipeline.originals.subscriberCount < count, !Task.isCancelled { await Task.yield() }
    }

    /// Returns once all cache writes that follow responses are done.
    func settle() async {
        while pipeline.revalidator.count > 0, !Task.isCancelled { await Task.yield() }
        // Gives the write of an original time to start, if there is one.
        for _ in 0..<100 { await Task.yield() }
    }
}
