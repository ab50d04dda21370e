import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Synchronization
import Testing

@testable import MegatonCluster

/// Cached failures follow HTTP: pipelines of several processes, one cache, one origin.
@Suite(.timeLimit(.minutes(2))) struct RememberedFailureTests {
    /// An origin whose response a test changes.
    private final class Site: Sendable {
        private let state: Mutex<OriginServer.Answer>

        init(_ status: Int, _ headers: [(String, String)] = [], body: String = "") {
            state = Mutex(.init(status: status, headers: headers, body: Data(body.utf8)))
        }

        var answer: OriginServer.Answer { state.withLock { $0 } }

        func say(_ status: Int, _ headers: [(String, String)] = []) {
            state.withLock { $0 = .init(status: status, headers: headers) }
        }

        func repair() { state.withLock { $0 = .image(TestImage.quarters(width: 64, height: 64)) } }
    }

    private struct Peer: Sendable {
        let client: RedisClient
        let lock: InFlightLock
        let pipeline: ImagePipeline

        init(_ server: RedisConfiguration, _ name: String, _ limit: Limit? = nil) throws {
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            client = RedisClient(server, role: name, group: group, logger: logger)
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            if limit == .timeout { loader.timeout = .milliseconds(500) }
            var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
            switch limit {
            case .types: configuration.types = [.jpeg]
            case .side: configuration.renderLimits.side = 32
            case .bytes: configuration.maximumDataSize = 16
            case .timeout, nil: break
            }
            lock = InFlightLock(
                cache: RedisDataCache(redis: client, logger: logger),
                owner: name,
                group: group,
                logger: logger
            )
            configuration.flights = lock
            pipeline = ImagePipeline(configuration: configuration)
        }

        /// The failure, or nil if there is an image.
        func failure(
            _ origin: OriginServer,
            control: String? = nil,
            headers: [String: String] = [:],
            options: ImageRequest.Options = [],
            maximumAge: Duration? = nil,
            ofRendition: Bool = true
        ) async -> ImagePipeline.Error? {
            var request = ImageRequest(url: origin.url("/a"), options: options)
            request.headers = headers
            if let control { request.headers["Cache-Control"] = control }
            request.maximumFailureAge = maximumAge
            do throws(ImagePipeline.Error) {
                if ofRendition {
                    _ = try await pipeline.renditions([Rendition(width: 32)], for: request)
                } else {
                    _ = try await pipeline.data(for: request)
                }
                return nil
            } catch {
                return error
            }
        }
    }

    /// A limit that is lower for the first peer than for the other.
    enum Limit: String, CaseIterable, Sendable {
        case types, side, bytes, timeout

        var code: ImagePipeline.Error.Code {
            switch self {
            case .types: .unsupportedFormat
            case .side: .sideTooLong
            case .bytes: .dataTooLarge
            case .timeout: .timedOut
            }
        }
    }

    private func withPeers(
        _ site: Site,
        _ limit: Limit? = nil,
        _ body: (OriginServer, Peer, Peer, RedisClient) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { server in
            try await OriginServer.run(responding: { _ in site.answer }) { (origin) async throws in
                let one = try Peer(server.configuration, "one", limit)
                defer { one.client.close() }
                let two = try Peer(server.configuration, "two")
                defer { two.client.close() }
                let client = server.client()
                defer { client.close() }
                try await body(origin, one, two, client)
            }
        }
    }

    /// Lifetimes of all cached failures in ms. Uncacheable responses leave a marker among them, which is skipped.
    private func lifetimes(_ client: RedisClient) async throws -> [Int] {
        var lifetimes: [Int] = []
        for name in try await client.send(["KEYS", .string(CacheKeys.patternOfNegatives)]).array ?? [] {
            let name = RedisArgument.string(name.string ?? "")
            if try await client.send(["GET", name]).string == "U" { continue }
            lifetimes.append(try await client.send(["PTTL", name]).int ?? 0)
        }
        return lifetimes
    }

    /// A date in the format of `Date` and `Expires`.
    private static func text(of date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: date)
    }

    @Test(arguments: [404, 403, 400, 500, 204], [false, true])
    func aFailureIsRememberedAndSaysSo(_ status: Int, _ ofRendition: Bool) async throws {
        try await withPeers(Site(status)) { (origin, one, two, _) async throws in
            let first = try #require(await one.failure(origin, ofRendition: ofRendition))
            #expect(first.remembered == nil && !first.message.contains("remembered"))
            let second = try #require(await two.failure(origin, ofRendition: ofRendition))
            #expect(second.code == first.code && second.remembered != nil)
            #expect(second.message.contains(/\(remembered for another \d+ s\)\.?$/))
            let third = try #require(await one.failure(origin, ofRendition: ofRendition))
            #expect(third.message.matches(of: /remembered for/).count == 1)
            #expect(origin.total == 1)
        }
    }

    /// Fault: 404, HTML and damaged images were cached for minutes although the origin had forbidden it.
    @Test(
        arguments: [
            "no-store", "private", "no-cache", "max-age=0", "s-maxage=0, max-age=60", "max-age=60, no-store",
        ],
        [404, 200, 204, 500]
    )
    func aFailureThatMustNotBeStoredIsNotRemembered(_ control: String, _ status: Int) async throws {
        let site = Site(status, [("Cache-Control", control)], body: status == 204 ? "" : "<html>")
        try await withPeers(site) { (origin, one, two, client) async throws in
            for (number, peer) in [one, two, two].enumerated() {
                #expect(await peer.failure(origin)?.remembered == nil)
                #expect(origin.total == number + 1)
            }
            #expect(try await lifetimes(client).isEmpty)
            site.repair()
            #expect(await one.failure(origin) == nil)
        }
    }

    @Test func maxAgeAndExpiresBoundTheTime() async throws {
        let headers: [@Sendable (Date) -> (String, String)] = [
            { _ in ("Cache-Control", "max-age=7") }, { ("Expires", Self.text(of: $0 + 7)) },
            { _ in ("Cache-Control", "s-maxage=7") },
        ]
        for header in headers {
            for (status, body) in [(404, ""), (200, "<html>")] {
                // For each case, as a slow machine takes seconds for one.
                let now = Date()
                let header = header(now)
                let site = Site(status, [("Date", Self.text(of: now)), header], body: body)
                try await withPeers(site) { (origin, one, two, client) async throws in
                    _ = await one.failure(origin)
                    let left = await two.failure(origin)?.remembered
                    #expect((1...7).contains(left ?? 0), "\(header) \(status)")
                    #expect(try await lifetimes(client).allSatisfy { $0 <= 7000 })
                }
            }
        }
    }

    /// Fault: such a request got a cached failure, although the article Caching promises it the origin's response.
    @Test(
        arguments: ["no-cache", "max-age=0"],
        [ImageRequest.Options(), .disableDiskCacheReads]
    )
    func aRequestThatWantsTheOriginGetsItAndReplacesWhatIsRemembered(
        _ control: String,
        _ options: ImageRequest.Options
    ) async throws {
        let site = Site(404)
        try await withPeers(site) { (origin, one, two, _) async throws in
            for ofRendition in [false, true] {
                site.say(404)
                _ = await one.failure(origin, control: control, options: options, ofRendition: ofRendition)
                let before = origin.total
                site.say(403)
                let failure = await two.failure(origin, control: control, options: options, ofRendition: ofRendition)
                #expect(failure?.code == .accessDenied && failure?.remembered == nil)
                #expect(origin.total == before + 1)
                let told = await one.failure(origin, ofRendition: ofRendition)
                #expect(told?.code == .accessDenied && told?.remembered != nil, "the new one is remembered")
                site.repair()
                #expect(await two.failure(origin, control: control, options: options, ofRendition: false) == nil)
                #expect(await one.failure(origin, ofRendition: ofRendition) == nil)
                // For the next round.
                await one.client.empty()
            }
        }
    }

    /// Fault: a failure that `--allow-type` or a longer `--fetch-timeout` would have avoided was answered from the
    /// cache.
    @Test(arguments: Limit.allCases) func aFailureByALimitIsNoAnswerToRequestsThatAllowMore(_ limit: Limit) async throws
    {
        let site = Site(200)
        site.repair()
        try await withPeers(site, limit) { (origin, one, two, _) async throws in
            if limit == .timeout { origin.hold() }
            let first = try #require(await one.failure(origin))
            #expect(first.code == limit.code && first.remembered == nil)
            let second = try #require(await one.failure(origin))
            #expect(second.code == limit.code && second.remembered != nil)
            #expect(origin.total == 1)
            if limit == .timeout { origin.release() }
            #expect(await two.failure(origin) == nil)
        }
    }

    @Test func aFailureByALimitIsAnAnswerToRequestsThatAllowLess() async throws {
        let site = Site(200, [], body: "<html>")
        try await withPeers(site, .types) { (origin, one, two, _) async throws in
            #expect(await two.failure(origin)?.code == .unsupportedFormat)
            let failure = await one.failure(origin)
            #expect(failure?.code == .unsupportedFormat && failure?.remembered != nil)
            #expect(origin.total == 1)
        }
    }

    /// Fault: a failure that a request without a flight had met was forgotten with the entry that it replaced.
    @Test(arguments: [false, true]) func aFailureThatReplacesAnEntryIsRemembered(_ ofRendition: Bool) async throws {
        let site = Site(200)
        site.repair()
        try await withPeers(site) { (origin, one, two, _) async throws in
            // The original is stored when this returns.
            #expect(await one.failure(origin, ofRendition: false) == nil)
            #expect(await one.failure(origin, ofRendition: ofRendition) == nil)
            #expect(origin.total == 1)
            site.say(404)
            let first = await one.failure(origin, control: "no-cache", ofRendition: ofRendition)
            #expect(first?.code == .notFound && first?.remembered == nil)
            let second = await two.failure(origin, ofRendition: ofRendition)
            #expect(second?.code == .notFound && second?.remembered != nil)
            #expect(origin.total == 2)
        }
    }

    @Test func aRetryIsAnsweredByYoungerFailuresOnly() async throws {
        try await withPeers(Site(500)) { (origin, one, two, _) async throws in
            _ = await one.failure(origin)
            #expect(await one.failure(origin, maximumAge: .zero)?.remembered == nil)
            #expect(await two.failure(origin, maximumAge: .seconds(60))?.remembered != nil)
            #expect(origin.total == 2)
        }
    }

    /// Concurrent requests share one failure, whether or not it may be cached.
    @Test(arguments: ["no-store", "max-age=60"]) func waitersShareTheFailure(_ control: String) async throws {
        try await withPeers(Site(500, [("Cache-Control", control)])) { (origin, one, two, client) async throws in
            let listening = [one, two].map { peer in Task { await peer.lock.run() } }  // Cancelled below.
            origin.hold()
            let tasks = [one, two, one].map { peer in
                Task { await peer.failure(origin, maximumAge: peer.client === two.client ? .zero : nil) }  // Awaited.
            }
            await origin.waitForRequests("/a", count: 1)
            var waits = 0
            while waits == 0, !Task.isCancelled {
                for name in try await client.send(["KEYS", "megaton:f:*"]).array ?? [] {
                    waits += try await client.send(["HEXISTS", .string(name.string ?? ""), "w"]).int ?? 0
                }
            }
            origin.release()
            for task in tasks { #expect(await task.value?.status == 500) }
            #expect(origin.total == 1)
            for task in listening {
                task.cancel()
                await task.value
            }
        }
    }

    @Test func aVaryingFailureIsNoAnswerToAnotherRequest() async throws {
        try await withPeers(Site(404, [("Vary", "Accept, X-Other")])) { (origin, one, two, _) async throws in
            _ = await one.failure(origin, headers: ["Accept": "image/webp"])
            #expect(await two.failure(origin, headers: ["Accept": "image/webp"])?.remembered != nil)
            #expect(await two.failure(origin, headers: ["Accept": "image/png"])?.remembered == nil)
            #expect(origin.total == 2)
        }
    }

    /// An origin is not asked before its Retry-After has passed, not even by a retry.
    @Test(arguments: [503, 429, 500]) func aRetryAfterIsKeptByAll(_ status: Int) async throws {
        let site = Site(status, [("Retry-After", "30"), ("Cache-Control", "no-store")])
        try await withPeers(site) { (origin, one, two, client) async throws in
            let first = try #require(await one.failure(origin))
            #expect(first.requestedDelay == 30 && first.message.contains("asks not to be asked again for 30 s"))
            for age in [nil, Duration.zero] {
                let failure = try #require(await two.failure(origin, maximumAge: age))
                #expect((29...30).contains(failure.requestedDelay ?? 0) && failure.remembered != nil)
            }
            // These requests do not lead a flight.
            for (control, options) in [("no-store", []), (nil, .reloadIgnoringCachedData)]
                as [(String?, ImageRequest.Options)]
            {
                let failure = try #require(await two.failure(origin, control: control, options: options))
                #expect((29...30).contains(failure.requestedDelay ?? 0) && failure.remembered != nil)
            }
            #expect(origin.total == 1)
            #expect(try await lifetimes(client).count == 1)
            await one.client.empty()
            site.repair()
            #expect(await two.failure(origin) == nil)
        }
    }

    /// The entry is under the key that requests with other header fields share; the failure is not.
    @Test func aSuccessUnderASharedKeyEndsTheFailure() async throws {
        let site = Site(404)
        try await withPeers(site) { (origin, one, two, client) async throws in
            let accept = ["Accept": "image/*"]
            _ = try #require(await one.failure(origin, headers: accept, ofRendition: false))
            #expect(try await lifetimes(client).count == 1)
            site.repair()
            #expect(await two.failure(origin, headers: accept, maximumAge: .zero, ofRendition: false) == nil)
            #expect(try await lifetimes(client).isEmpty)
        }
    }

    @Test func failuresAreForgottenByURLByHostOrAll() async throws {
        try await withPeers(Site(404)) { (origin, one, two, client) async throws in
            let queue = JobQueue(client, keys: QueueKeys(queue: "test"))
            let failures = RememberedFailures(caches: [client], queue: queue)
            let (port, key) = (origin.port, RedisArgument.string(queue.keys.rate))
            func set() async throws {
                await client.empty()
                for path in ["/a?x=1", "/a", "/b"] { _ = try? await one.pipeline.data(for: origin.url(path)) }
                #expect(try await lifetimes(client).count == 3)
                for host in ["127.0.0.1:\(port)", "127.0.0.1:1", "other.org:443"] {
                    try await client.send(["HSET", key, .string(host), "1 2 3"])
                }
            }
            func left() async throws -> [Int] {
                [try await lifetimes(client).count, try await client.send(["HLEN", key]).int ?? -1]
            }
            try await set()
            let counted = try await failures.countSources { $0?.hasSuffix("/a") == true }
            #expect(counted == 2)
            #expect(try await left() == [3, 3], "they were only counted")
            let url = try #require(URL(string: "http://user:password@127.0.0.1:\(port)/a?y=2"))
            #expect(try await failures.forget(urls: [url], hosts: []) == 2)
            #expect(try await left() == [1, 3])
            #expect(try await failures.forget(urls: [], hosts: ["127.0.0.1:1", "0.0.1"]) == 0)
            #expect(try await left() == [1, 2])
            try await set()
            #expect(try await failures.forget(urls: [], hosts: ["127.0.0.1"]) == 3)
            #expect(try await left() == [0, 1])
            try await set()
            #expect(try await failures.forget() == 3)
            #expect(try await left() == [0, 0])
            #expect(await two.failure(origin)?.remembered == nil)
        }
    }

    /// Fault: jobs that waited for a Retry-After of half an hour waited on, and so did later ones.
    @Test(arguments: [[], ["slow.example"]]) func aForgottenHostTakesItsHeldJobs(hosts: [String]) async throws {
        try await QueueFixture.run { fixture in
            let (keys, later) = (fixture.keys, try await fixture.queue.now() + 1_800_000)
            for host in ["slow.example:443", "other.example:443"] {
                try await fixture.redis.send(["ZADD", .string(keys.held), .int(later), .string(host)])
            }
            let failures = RememberedFailures(caches: [fixture.redis], queue: fixture.queue)
            _ = try await hosts.isEmpty ? failures.forget() : failures.forget(urls: [], hosts: hosts)
            func turn(_ host: String) async throws -> Int {
                try await fixture.redis.send(["ZSCORE", .string(keys.held), .string(host)]).string.flatMap { Int($0) }
                    ?? -1
            }
            #expect(try await turn("slow.example:443") < later - 1_700_000)
            #expect(try await (turn("other.example:443") < later) == hosts.isEmpty)
            #expect(try await fixture.count("LLEN", keys.wake) == 1)
        }
    }

    @Test func lifetimes() {
        let policy = NegativePolicy()
        func seconds(_ error: ImagePipeline.Error, _ random: Double = 0.5) -> Double? {
            policy.lifetime(of: error, random: random)?.inSeconds
        }
        var error = ImagePipeline.Error(.notFound, "x")
        #expect(seconds(error) == 60)
        error.reuse = .init(lifetime: 3600)
        #expect(seconds(error) == 60)
        error.reuse = .init(lifetime: 2)
        #expect([0, 1].map { seconds(error, $0) } == [2, 2])
        error.remembered = 50
        #expect(seconds(error) == 0, "what is remembered is not remembered once more")
        var busy = ImagePipeline.Error(.httpStatus, "x", isRetryable: true, retryAfter: 40, status: 503)
        busy.requestedDelay = 40
        #expect([0, 1].map { seconds(busy, $0) } == [40, 40], "no earlier than the origin said, and no later")
        busy.requestedDelay = 1
        #expect([0, 1].map { seconds(busy, $0) } == [1, 1])
        busy.requestedDelay = 1e9
        #expect(seconds(busy, 0) == 86_400)
        #expect(seconds(.init(.cancelled, "x")) == nil)
        #expect(seconds(.init(.throttled, "x", isRetryable: true, retryAfter: 10)) == 0)
    }
}

extension RedisClient {
    /// Empties the cache.
    fileprivate func empty() async { _ = try? await send(["FLUSHALL"]) }
}
