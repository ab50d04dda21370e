import AsyncHTTPClient
import Foundation
import GRDB
import MegatonPipelineTesting
import MegatonPlugins
import NIOCore
import Testing

/// Adapters of third-party libraries conform: the protocols of the pipeline can be implemented by others.
@Suite(.timeLimit(.minutes(2))) struct PluginConformanceTests {
    @Test(arguments: DataLoadingConformance.Check.allCases)
    func asyncHTTPClientLoaderConforms(_ check: DataLoadingConformance.Check) async throws {
        var configuration = HTTPClient.Configuration()
        configuration.timeout.connect = .seconds(2)
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(configuration: configuration)
        do {
            try await OriginServer.runConformance { (origin) async throws in
                try await DataLoadingConformance(AsyncHTTPClientLoader(client: client), origin: origin).run(check)
            }
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }

    @Test(arguments: DataCachingConformance.Check.allCases)
    func grdbCacheConforms(_ check: DataCachingConformance.Check) async throws {
        let directory = try TestDirectory()
        let cache = try GRDBCache(DatabasePool(path: "\(directory.path)/cache.sqlite"))
        try await DataCachingConformance(cache).run(check)
    }

    @Test func theOldestEntriesGiveWay() async throws {
        let cache = try GRDBCache(DatabaseQueue(), limit: 3)
        for number in 0..<5 { await cache.storeData(Data([UInt8(number)]), for: "\(number)") }
        await cache.storeData(Data([20]), for: "2")
        await cache.storeData(Data([50]), for: "5")
        let found = await cache.cachedData(for: (0...5).map(String.init))
        #expect(found == [nil, nil, Data([20]), nil, Data([4]), Data([50])])
    }

    @Test(arguments: ["AsyncHTTPClientLoader", "GRDBCache"])
    func aPluginIsShort(_ name: String) throws {
        let lines = try Repository.text("Examples/Plugins/\(name).swift").split(
            separator: "\n",
            omittingEmptySubsequences: false
        )
        #expect(lines.count <= 60 + 1, "\(name) has \(lines.count - 1) lines")
    }
}
