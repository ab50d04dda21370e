import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// The rules of RFC 9110 and 9111 as a caller of `data(for:)` sees them: the same tables for a pipeline with a disk
/// cache, for one with a cache in memory, and for two that share one Redis and are used in turn. No test waits for an
/// entry to become stale: responses have an `Age`.
@Suite(.timeLimit(.minutes(2))) struct HTTPCacheTests {
    enum Setup: Sendable, CaseIterable { case disk, memory, redis }

    private static func pipeline(
        _ change: (inout ImagePipeline.Configuration) throws -> Void
    ) rethrows -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        try change(&configuration)
        return ImagePipeline(configuration: configuration)
    }

    private func withPipelines(_ setup: Setup, _ body: ([ImagePipeline]) async throws -> Void) async throws {
        switch setup {
        case .memory: try await body([Self.pipeline { $0.dataCache = MemoryDataCache() }])
        case .disk:
            let directory = try TestDirectory()
            try await body([
                Self.pipeline { $0.dataCache = try DataCache(path: URL(fileURLWithPath: directory.path + "/cache")) }
            ])
        case .redis:
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            try await RedisServerProcess.run { server in
                let clients = ["one", "two"].map {
                    RedisClient(server.configuration, role: $0, group: group, logger: logger)
                }
                defer { for client in clients { client.close() } }
                let pipelines = clients.map { client in
                    Self.pipeline {
                        $0.flights = InFlightLock(
                            cache: RedisDataCache(redis: client, logger: logger),
                            owner: UUID().uuidString,
                            group: group,
                            logger: logger
                        )
                    }
                }
                try await body(pipelines)
            }
        }
    }

    private func play(_ cases: [HTTPCacheCase], _ setup: Setup) async throws {
        try await withPipelines(setup) { pipelines in
            let origin = HTTPCacheOrigin()
            try await OriginServer.run(responding: { origin.answer($0) }) { (server) async throws in
                for (index, played) in cases.enumerated() {
                    await played.play(pipelines, server, origin, path: "/\(index)")
                }
            }
        }
    }

    @Test(arguments: Setup.allCases) func freshness(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.freshness, setup)
    }

    @Test(arguments: Setup.allCases) func directives(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.directives, setup)
    }

    @Test(arguments: Setup.allCases) func headerFields(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.headerFields, setup)
    }

    @Test(arguments: Setup.allCases) func variants(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.variants, setup)
    }

    @Test(arguments: Setup.allCases) func unsafeMethods(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.unsafeMethods, setup)
    }

    @Test(arguments: Setup.allCases) func requestsOfOneCaller(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.requestsOfOneCaller, setup)
    }

    @Test(arguments: Setup.allCases) func staleEntries(_ setup: Setup) async throws {
        try await play(HTTPCacheCase.staleEntries, setup)
    }

    /// Neither during the download of the part, nor afterwards.
    @Test(arguments: Setup.allCases) func aPartIsOneCallersAlone(_ setup: Setup) async throws {
        let image = HTTPCacheCase.image(0)
        try await withPipelines(setup) { pipelines in
            try await OriginServer.run(
                responding: { request in
                    if request.headers["range"] == nil { return .image(image) }
                    let field = ("Content-Range", "bytes 0-1/\(image.count)")
                    return .init(status: 206, headers: [field], body: image.prefix(2))
                }
            ) { (server) async throws in
                var part = ImageRequest(url: server.url("/a"))
                part.headers["Range"] = "bytes=0-1"
                let small = Rendition(width: 4, format: .png)
                server.hold()
                let (pipeline, whole, own) = (pipelines[0], ImageRequest(url: server.url("/a")), part)
                // All of them are awaited below.
                let first = Task { try await pipeline.data(for: own).data }
                let second = Task { try await pipeline.renditions([small], for: own).count }
                await server.waitForRequests("/a", count: 2)
                let third = Task { try await pipeline.renditions([small], for: whole).count }
                await server.waitForRequests("/a", count: 3)
                server.release()
                let (data, count) = (try await first.value, try await third.value)
                #expect(data == image.prefix(2) && count == 1)
                let outcome = await second.result
                #expect(throws: ImagePipeline.Error.self) { _ = try outcome.get() }
                let other = pipelines[pipelines.count - 1]
                let stored = try await other.data(for: server.url("/a")).data
                #expect(stored == image)
            }
        }
    }

    /// Responses without a lifetime use the configured one.
    @Test func theHeuristicLifetimeIsConfigured() async throws {
        let origin = HTTPCacheOrigin()
        try await OriginServer.run(responding: { origin.answer($0) }) { (server) async throws in
            for (index, (hours, response, source)) in Self.heuristics.enumerated() {
                let pipeline = Self.pipeline {
                    $0.dataCache = MemoryDataCache()
                    $0.heuristicLifetime = .seconds(hours * 3600)
                }
                let played = HTTPCacheCase(
                    "\(hours) h, \(response)",
                    [.init(response: response, source: .origin), .init(response: response, source: source)]
                )
                await played.play([pipeline], server, origin, path: "/\(index)")
            }
        }
    }

    private static let heuristics: [(Double, [(String, String)], HTTPCacheCase.Source)] = [
        (24, [("ETag", "\"a\"")], .cache(of: 0)), (0, [("ETag", "\"a\"")], .confirmed(of: 0)), (0, [], .origin),
        (24, [("Age", "80000")], .cache(of: 0)), (24, [("Age", "90000")], .origin),
        (30, [("Age", "90000")], .cache(of: 0)),
        (24, [("Age", "90000"), ("ETag", "\"a\"")], .confirmed(of: 0)),
        // A tenth of ten days.
        (24, [("Last-Modified", HTTPCacheCase.date(-864_000)), ("Age", "86000")], .cache(of: 0)),
        (24, [("Last-Modified", HTTPCacheCase.date(-864_000)), ("Age", "87000")], .confirmed(of: 0)),
        // At most a week; at most a day if the configured number is a seventh.
        (24, [("Last-Modified", HTTPCacheCase.date(-1e8)), ("Age", "604000")], .cache(of: 0)),
        (24, [("Last-Modified", HTTPCacheCase.date(-1e8)), ("Age", "606000")], .confirmed(of: 0)),
        (24.0 / 7, [("Last-Modified", HTTPCacheCase.date(-1e8)), ("Age", "87000")], .confirmed(of: 0)),
        (0, [("Last-Modified", HTTPCacheCase.date(-1e8))], .confirmed(of: 0)),
    ]
}
