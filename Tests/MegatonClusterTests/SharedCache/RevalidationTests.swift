import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// Revalidation of stale entries: pipelines of several processes, one cache, one origin. Responses are stale at once
/// (`max-age=0`, `no-cache`), so that no test has to wait for that.
@Suite(.timeLimit(.minutes(2))) struct RevalidationTests {
    /// An origin with one image, which a test can change.
    final class Site: Sendable {
        enum Validator { case etag, date, none }

        private struct State {
            var control: String
            var version = 1
            var failure: Int?
            var bodies = 0
        }

        private let validator: Validator
        private let state: Mutex<State>

        init(_ control: String, _ validator: Validator = .etag) {
            self.validator = validator
            state = Mutex(State(control: control))
        }

        /// Number of images sent so far.
        var bodies: Int { state.withLock { $0.bodies } }

        func say(_ control: String) { state.withLock { $0.control = control } }

        func change() { state.withLock { $0.version += 1 } }

        func fail(_ status: Int) { state.withLock { $0.failure = status } }

        func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
            state.withLock { state -> OriginServer.Answer in
                if let failure = state.failure { return OriginServer.Answer(status: failure) }
                let etag = "\"\(state.version)\""
                let date = "Wed, 21 Oct 2015 07:28:0\(state.version) GMT"
                var headers = [("Cache-Control", state.control)]
                var isKnown = false
                switch validator {
                case .etag:
                    headers.append(("ETag", etag))
                    isKnown = request.headers["if-none-match"] == etag
                case .date:
                    headers.append(("Last-Modified", date))
                    isKnown = request.headers["if-modified-since"] == date
                case .none: break
                }
                if isKnown { return OriginServer.Answer(status: 304, headers: headers) }
                state.bodies += 1
                let image = TestImage.quarters(width: 64, height: 64, seed: UInt8(state.version * 40))
                return .image(image, headers: headers)
            }
        }
    }

    /// One process, and the costs of its background revalidations.
    struct Peer: Sendable {
        let client: RedisClient
        let pipeline: ImagePipeline
        let refreshes: AsyncStream<PipelineMetrics.Counts>

        init(_ server: RedisConfiguration, _ name: String) throws {
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            client = RedisClient(server, role: name, group: group, logger: logger)
            let (refreshes, continuation) = AsyncStream.makeStream(of: PipelineMetrics.Counts.self)
            self.refreshes = refreshes
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
            configuration.flights = InFlightLock(
                cache: RedisDataCache(redis: client, logger: logger),
                owner: name,
                group: group,
                logger: logger
            )
            configuration.didRefresh = { _, cost in continuation.yield(cost) }
            // The next request finds the original, instead of waiting for it.
            configuration.uploadConcurrency = 0
            pipeline = ImagePipeline(configuration: configuration)
        }

        func ask(
            _ origin: OriginServer,
            width: Int = 32,
            _ metrics: PipelineMetrics = PipelineMetrics()
        ) async throws -> RenditionResponse {
            let wanted = Rendition(width: width, format: .png)
            return try await pipeline.renditions([wanted], for: .init(url: origin.url("/a")), metrics: metrics)[0]
        }

        /// Waits for the next background revalidation.
        func nextRefresh() async -> PipelineMetrics.Counts? {
            for await cost in refreshes { return cost }
            return nil
        }
    }

    private func withPeers(_ site: Site, _ body: (OriginServer, Peer, Peer) async throws -> Void) async throws {
        try await RedisServerProcess.run { server in
            try await OriginServer.run(responding: { site.answer($0) }) { (origin) async throws in
                let one = try Peer(server.configuration, "one")
                defer { one.client.close() }
                let two = try Peer(server.configuration, "two")
                defer { two.client.close() }
                try await body(origin, one, two)
            }
        }
    }

    private func failure(_ body: () async throws -> Void) async -> ImagePipeline.Error? {
        do {
            try await body()
            return nil
        } catch {
            return error as? ImagePipeline.Error
        }
    }

    @Test(arguments: [Site.Validator.etag, .date])
    func anUnchangedEntryIsRevalidatedAndNotFetchedAgain(_ validator: Site.Validator) async throws {
        let site = Site("no-cache", validator)
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            for (number, peer) in [one, two, one].enumerated() {
                let metrics = PipelineMetrics()
                let again = try await peer.ask(origin, metrics)
                #expect(again.data == first.data && again.source == .cache)
                let counts = metrics.counts
                #expect(counts.originFetches == 1 && counts.revalidations == 1 && counts.bytesIn == 0)
                #expect(counts.renders == 0, "its original is the same, so that it is too")
                #expect(origin.count("/a") == number + 2)
            }
            let metrics = PipelineMetrics()
            let other = try await two.ask(origin, width: 16, metrics)
            #expect(other.size.width == 16 && metrics.counts.renders == 1 && metrics.counts.revalidations == 1)
            #expect(site.bodies == 1)
        }
    }

    @Test func anOriginalThatNoCodecCanReadIsNotKept() async throws {
        // It starts like an image, and the download was complete.
        let broken = TestImage.quarters(width: 64, height: 64).prefix(60)
        try await RedisServerProcess.run { server in
            try await OriginServer.run(answer: { _ in .image(Data(broken)) }) { (origin) async throws in
                let peer = try Peer(server.configuration, "one")
                defer { peer.client.close() }
                #expect(await failure { _ = try await peer.ask(origin) }?.code == .corruptImage)
                #expect(try await peer.client.send(["KEYS", "megaton:o:*"]).array?.isEmpty == true)
                // Fault: it stayed under the key that requests with other header fields share.
                #expect(await failure { try await Self.askAccepting(origin.url("/b"), peer) }?.code == .corruptImage)
                #expect(try await peer.client.send(["KEYS", "megaton:o:*"]).array?.isEmpty == true)
            }
        }
    }

    private static func askAccepting(_ url: URL?, _ peer: Peer) async throws {
        var request = ImageRequest(url: url)
        request.headers = ["Accept": "image/*"]
        _ = try await peer.pipeline.renditions([Rendition(width: 32, format: .png)], for: request)
    }

    @Test func aChangedEntryIsMadeAgain() async throws {
        let site = Site("no-cache")
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.change()
            let metrics = PipelineMetrics()
            let second = try await two.ask(origin, metrics)
            #expect(second.data != first.data && second.source == .render)
            #expect(metrics.counts.revalidations == 0 && metrics.counts.renders == 1)
            #expect(try await one.ask(origin).data == second.data)
            #expect(origin.count("/a") == 3 && site.bodies == 2)
        }
    }

    @Test func theHeadersOfA304Count() async throws {
        let site = Site("no-cache")
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.say("max-age=60")
            _ = try await one.ask(origin)
            #expect(origin.count("/a") == 2)
            for peer in [one, two] { #expect(try await peer.ask(origin).data == first.data) }
            #expect(origin.count("/a") == 2, "it is fresh now")
        }
    }

    /// Fault: the header fields of a 304 were ignored while the entry was fresh, so that a refresh changed nothing.
    @Test(arguments: ["no-store", "no-cache", "max-age=600"])
    func aRefreshTakesTheHeadersOfA304(_ control: String) async throws {
        let site = Site("max-age=31536000")
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.say(control)
            var request = ImageRequest(url: origin.url("/a"))
            request.refresh()
            let wanted = Rendition(width: 32, format: .png)
            #expect(try await two.pipeline.renditions([wanted], for: request)[0].data == first.data)
            #expect(origin.count("/a") == 2 && site.bodies == 1)
            let metrics = PipelineMetrics()
            #expect(try await one.ask(origin, metrics).data == first.data)
            #expect(metrics.counts.renders == (control == "no-store" ? 1 : 0))
            #expect(origin.count("/a") == (control == "max-age=600" ? 2 : 3))
        }
    }

    @Test func aStaleRenditionIsServedAtOnceAndRefreshedByOne() async throws {
        let site = Site("max-age=0, stale-while-revalidate=60")
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.change()
            origin.hold()
            for peer in [one, two, one, two, one] {
                let metrics = PipelineMetrics()
                let stale = try await peer.ask(origin, metrics)
                #expect(stale.data == first.data && metrics.counts.staleHits == 1)
                #expect(metrics.counts.originFetches == 0 && metrics.counts.waits == 0)
            }
            await origin.waitForRequests("/a", count: 2)
            let metrics = PipelineMetrics()
            _ = try await two.ask(origin, width: 16, metrics)
            #expect(metrics.counts.staleHits == 1, "of a stale original another size can be made meanwhile")
            origin.release()
            let cost = try #require(await one.nextRefresh())
            #expect(cost.originFetches == 1 && cost.renders == 1)
            #expect(origin.count("/a") == 2)
            #expect(try await two.ask(origin).data != first.data)
        }
    }

    @Test(arguments: [Site.Validator.etag, .none])
    func aFailingOriginIsStoodInFor(_ validator: Site.Validator) async throws {
        let site = Site("max-age=0, stale-if-error=60", validator)
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.fail(503)
            let metrics = PipelineMetrics()
            #expect(try await one.ask(origin, metrics).data == first.data)
            #expect(metrics.counts.originFetches == 1 && metrics.counts.staleHits == 1)
            for peer in [two, one, two] { #expect(try await peer.ask(origin).data == first.data) }
            #expect(origin.count("/a") == 2, "it is left alone for some seconds")
        }
    }

    @Test(arguments: [
        "max-age=0, must-revalidate, stale-if-error=60", "no-cache, stale-if-error=60", "max-age=0",
    ])
    func withoutLeaveNothingStaleIsServed(_ control: String) async throws {
        let site = Site(control)
        try await withPeers(site) { origin, one, two in
            _ = try await one.ask(origin)
            site.fail(503)
            let error = await failure { _ = try await two.ask(origin) }
            #expect(error?.code == .httpStatus && error?.status == 503)
            #expect(origin.count("/a") == 2)
        }
    }

    @Test func aRateLimitIsNoFailureOfTheOrigin() async throws {
        let site = Site("max-age=0, stale-if-error=60")
        try await withPeers(site) { origin, one, two in
            _ = try await one.ask(origin)
            site.fail(429)
            for peer in [one, two] { #expect(await failure { _ = try await peer.ask(origin) }?.status == 429) }
        }
    }

    @Test func anEntryGoneAtTheOriginIsNoLongerServed() async throws {
        let site = Site("max-age=0, stale-while-revalidate=60")
        try await withPeers(site) { origin, one, two in
            _ = try await one.ask(origin)
            site.fail(404)
            _ = try await one.ask(origin)
            _ = await one.nextRefresh()
            for peer in [one, two] { #expect(await failure { _ = try await peer.ask(origin) }?.code == .notFound) }
            for kind in ["o", "r"] {
                #expect(try await one.client.send(["KEYS", .string("megaton:\(kind):*")]).array?.isEmpty == true)
            }
        }
    }

    /// A reload replaces a fresh entry for all peers; a revalidation that confirms it keeps it.
    @Test func aReloadIsForAll() async throws {
        let site = Site("max-age=3600")
        try await withPeers(site) { origin, one, two in
            let first = try await one.ask(origin)
            site.change()
            #expect(try await two.ask(origin).data == first.data)
            let wanted = [Rendition(width: 32, format: .png)]
            let reload = ImageRequest(url: origin.url("/a"), options: .reloadIgnoringCachedData)
            let new = try await one.pipeline.renditions(wanted, for: reload)[0]
            #expect(new.data != first.data && new.source == .render)
            let metrics = PipelineMetrics()
            var careful = ImageRequest(url: origin.url("/a"))
            careful.headers = ["Cache-Control": "no-cache"]
            let confirmed = try await two.pipeline.renditions(wanted, for: careful, metrics: metrics)[0]
            #expect(confirmed.data == new.data && metrics.counts.revalidations == 1 && metrics.counts.renders == 0)
            for peer in [one, two] { #expect(try await peer.ask(origin).data == new.data) }
            #expect(site.bodies == 2 && origin.count("/a") == 3)
        }
    }
}
