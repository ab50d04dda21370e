import Foundation
import MegatonTestSupport

@testable import MegatonPipeline

/// A pipeline whose caches, decoders, processors and encoder count what they do.
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
    /// How often each processor was applied.
    var steps: [String: Int] { counts.value.filter { !["decode", "encode"].contains($0.key) } }

    /// A request whose processors are steps of these names.
    func request(_ url: URL, _ steps: [String] = [], options: ImageRequest.Options = []) -> ImageRequest {
        ImageRequest(url: url, processors: steps.map { CountingProcessor(id: $0, counts: counts) }, options: options)
    }

    func original(_ request: ImageRequest) -> String { CacheKey.original(of: request).description }
    func image(_ request: ImageRequest) -> String { pipeline.dataCacheKey(for: request).description }

    /// Puts an original into the cache, as an earlier load would have.
    func keepOriginal(_ data: Data, of request: ImageRequest) async {
        await keep(data, for: .original(of: request))
    }

    func keep(_ data: Data, for key: CacheKey) async {
        let entry = CachedData(data: data, metadata: CachedData.Metadata(type: "image/png", lifetime: 3600))
        await LocalFlights(cache: cache).store(entry, for: key)
        cache.forgetCounts()
    }

    /// Returns when so many wait for images, tasks and steps.
    func waitForImages(_ count: Int) async {
        while pipeline.images.subscriberCount < count, !Task.isCancelled { await Task.yield() }
    }

    /// Returns when so many wait for originals.
    func waitForOriginals(_ count: Int) async {
        while pipeline.originals.subscriberCount < count, !Task.isCancelled { await Task.yield() }
    }

    /// Returns when nothing is being kept behind the answers any more.
    func settle() async {
        while pipeline.refreshes.count > 0, !Task.isCancelled { await Task.yield() }
        // The storing of an original has been begun by now, if it ever is.
        for _ in 0..<100 { await Task.yield() }
    }
}
