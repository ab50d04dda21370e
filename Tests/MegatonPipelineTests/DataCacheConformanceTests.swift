import Foundation
import MegatonPipeline
import MegatonPipelineTesting
import MegatonTestSupport
import Testing

/// The caches of the pipeline keep the contract of `DataCaching`.
@Suite(.timeLimit(.minutes(2))) struct DataCacheConformanceTests {
    /// Each entry is read from its file: nothing is left in the staging area.
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
        let directory = try TestDirectory()
        try await DataCachingConformance(Self.disk(directory)).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func filesConform(_ check: DataCachingConformance.Check) async throws {
        let directory = try TestDirectory()
        try await DataCachingConformance(FlushedCache(cache: Self.disk(directory))).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func memoryConforms(_ check: DataCachingConformance.Check) async throws {
        try await DataCachingConformance(MemoryDataCache()).run(check)
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func layersConform(_ check: DataCachingConformance.Check) async throws {
        let directory = try TestDirectory()
        let layers = LayeredDataCache([MemoryDataCache(), try Self.disk(directory)])
        try await DataCachingConformance(layers).run(check)
    }

    private static func disk(_ directory: TestDirectory) throws -> DataCache {
        try DataCache(path: URL(fileURLWithPath: directory.path))
    }
}
