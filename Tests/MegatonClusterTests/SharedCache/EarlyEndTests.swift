import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// Downloads that end early beside a shared cache, which stores originals that are needed again.
@Suite(.timeLimit(.minutes(2))) struct EarlyEndTests {
    private static let image = Result { try TestImage.progressiveNoise(width: 960, height: 720) }

    private struct Peer: Sendable {
        let client: RedisClient
        let pipeline: ImagePipeline

        init(_ server: RedisConfiguration, _ name: String) {
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            client = RedisClient(server, role: name, group: group, logger: logger)
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
            configuration.dataCachePolicy = .storeReused
            configuration.flights = InFlightLock(
                cache: RedisDataCache(redis: client, logger: logger),
                owner: name,
                group: group,
                logger: logger
            )
            pipeline = ImagePipeline(configuration: configuration)
        }

        /// - Returns: bytes that were fetched for a thumbnail.
        func render(_ url: URL, width: Int, isRepeated: Bool = false) async throws -> Int {
            var request = ImageRequest(url: url)
            request.expectsReuse = isRepeated
            let metrics = PipelineMetrics()
            _ = try await pipeline.renditions([Rendition(width: width)], for: request, metrics: metrics)
            return metrics.counts.bytesIn
        }
    }

    private func withPeers(_ body: (OriginServer, Peer, Peer, RedisClient, Int) async throws -> Void) async throws {
        let image = try Self.image.get()
        try await RedisServerProcess.run { server in
            try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
                let (one, two) = (Peer(server.configuration, "one"), Peer(server.configuration, "two"))
                let client = server.client()
                defer { for client in [one.client, two.client, client] { client.close() } }
                try await body(origin, one, two, client, image.count)
            }
        }
    }

    /// At most two requests: the second one has the whole original, which the cache keeps.
    @Test func theSecondFetchIsComplete() async throws {
        try await withPeers { (origin, one, two, client, length) async throws in
            let url = origin.url("/a")
            let entry = CacheKeys.entry(.original(of: ImageRequest(url: url)))
            #expect(try await one.render(url, width: 90) < length)
            #expect(try await client.send(["EXISTS", .string(entry)]).int == 0)
            #expect(try await two.render(url, width: 80) == length)
            while try await client.send(["EXISTS", .string(entry)]).int == 0 { await Task.yield() }
            #expect(try await one.render(url, width: 70) == 0)
            #expect(origin.count("/a") == 2)
        }
    }

    @Test func anOriginalThatIsNeededAgainIsLoadedCompletely() async throws {
        try await withPeers { (origin, one, two, _, length) async throws in
            #expect(try await one.render(origin.url("/a"), width: 90, isRepeated: true) == length)
            #expect(try await two.render(origin.url("/a"), width: 80) == 0)
            #expect(origin.count("/a") == 1)
        }
    }

    /// A process that waits for the original loads all of it when the other has ended early.
    @Test func aWaitingProcessGoesOn() async throws {
        try await withPeers { (origin, one, two, client, length) async throws in
            let url = origin.url("/a")
            origin.hold()
            async let first = one.render(url, width: 90)
            await origin.waitForRequests("/a", count: 1)
            async let second = two.render(url, width: 80)
            let flight = CacheKeys.flight(.original(of: ImageRequest(url: url)))
            while try await client.send(["HGET", .string(flight), "w"]).string != "1" { await Task.yield() }
            origin.release()
            #expect(try await first < length)
            #expect(try await second == length)
            #expect(origin.count("/a") == 2)
        }
    }
}
