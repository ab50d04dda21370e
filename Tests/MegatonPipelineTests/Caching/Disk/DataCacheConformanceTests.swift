import Foundation
import MegatonPipeline
import MegatonPipelineTesting
import Testing

/// The pipeline's caches conform to the contract of `DataCaching`.
@Suite(.timeLimit(.minutes(2)), .diskCaches) struct DataCacheConformanceTests {
    /// Reads each entry from its file: the staging area is always empty.
    struct FlushedCache: DataCaching {
        let cache: DataCache

        func cachedData(for key: String) async -> Data? { await cache.cachedData(for: key) }

        func cachedData(for keys: [String]) async -> [Data?] { await cache.cachedData(for: keys) }

        func containsData(for key: String) async -> Bool { await cache.containsData(for: key) }

        func storeData(_ data: Data, for key: String) async {
            await cache.storeData(data, for: key)
            await cache.flush()
        }

        func removeData(for key: String) async {
            await cache.removeData(for: key)
            await cache.flush()
        }

        func removeAll() async {
            await cache.removeAll()
            await cache.flush()
        }
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func diskConforms(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(DataCacheFixture().cache()).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func filesConform(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(FlushedCache(cache: DataCacheFixture().cache())).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func memoryConforms(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(MemoryDataCache()).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func layersConform(_ check: DataCachingConformance.Check) async throws {
        let layers = LayeredDataCache([MemoryDataCache(), try DataCacheFixture().cache()])
        try await DataCachingConformance(layers).run(check)
    }
}
