import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// Entries that one process fetched from a private network are not answered by another that may not connect to it,
/// though both share a cache and the URL names a host.
@Suite(.timeLimit(.minutes(2))) struct SpecialAddressTests {
    private final actor Memory: DataCaching {
        var entries: [String: Data] = [:]
        func cachedData(for key: String) -> Data? { entries[key] }
        func storeData(_ data: Data, for key: String) { entries[key] = data }
        func removeData(for key: String) { entries[key] = nil }
    }

    /// The cache that both processes share.
    enum Shared: Sendable, CaseIterable { case dataCache, flights, both }

    private let image = TestImage.quarters(width: 64, height: 64)
    private let small = Rendition(width: 32, height: 32, format: .png)
    private let other = Rendition(width: 16, height: 16, format: .png)

    private func pipeline(
        _ policy: AddressPolicy,
        change: (inout ImagePipeline.Configuration) -> Void
    ) -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy = policy
        loader.resolve = { $0.hasSuffix(".test") ? ["127.0.0.1"] : [] }
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        configuration.urlPolicy.addresses = policy
        change(&configuration)
        return ImagePipeline(configuration: configuration)
    }

    private func named(_ url: URL) throws -> URL {
        var parts = try #require(URLComponents(url: url, resolvingAgainstBaseURL: false))
        parts.host = "intranet.test"
        return try #require(parts.url)
    }

    private func isForbidden(_ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            return (error as? ImagePipeline.Error)?.code == .forbidden
        }
    }

    @Test(arguments: Shared.allCases) func aPublicProcessDoesNotAnswerThem(_ shared: Shared) async throws {
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let (memory, flights) = (Memory(), SharedFlights())
            func change(_ configuration: inout ImagePipeline.Configuration) {
                if shared != .dataCache { configuration.flights = flights }
                if shared != .flights { configuration.dataCache = memory }
            }
            let inside = pipeline(AddressPolicy(allowsPrivate: true), change: change)
            let outside = pipeline(AddressPolicy(), change: change)
            let url = try named(origin.url("/a"))
            let request = ImageRequest(url: url)
            _ = try await inside.renditions([small], for: request)
            _ = try await inside.image(for: request)
            let fetched = origin.count("/a")
            #expect(await isForbidden { _ = try await outside.renditions([small], for: request) })
            #expect(await isForbidden { _ = try await outside.renditions([other], for: request) })
            #expect(await isForbidden { _ = try await outside.image(for: request) })
            #expect(await isForbidden { _ = try await outside.data(for: request) })
            // The entries are as before for those who may have them.
            _ = try await inside.renditions([small], for: request)
            _ = try await inside.renditions([other], for: request)
            #expect(origin.count("/a") == fetched)
        }
    }

    /// The name may lead to another address since: the first bytes would be rendered with whatever that sends.
    @Test(arguments: [true, false])
    func theBeginningOfADownloadIsNotContinuedFromOutside(_ isInside: Bool) async throws {
        let image = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let headers = [("ETag", "\"1\""), ("Accept-Ranges", "bytes")]
        let ranges = Mutex<[String?]>([])
        try await OriginServer.run(responding: { request in
            let range = request.headers["range"]
            let isFirst = ranges.withLock { ranges in
                ranges.append(range)
                return ranges.count == 1
            }
            return .init(headers: headers, body: isFirst ? image.prefix(200_000) : image, announcedLength: image.count)
        }) { (origin) async throws in
            let memory = Memory()
            let request = ImageRequest(url: try named(origin.url("/a")))
            let all = AddressPolicy(allowsPrivate: true)
            let first = pipeline(all) { $0.resumableDataCache = memory }
            await #expect(throws: ImagePipeline.Error.self) { try await first.data(for: request) }
            let second = pipeline(all) {
                $0.resumableDataCache = memory
                if !isInside { $0.urlPolicy.addresses = AddressPolicy() }
            }
            #expect(try await second.data(for: request).0 == image)
            #expect(ranges.withLock { $0 } == [nil, isInside ? "bytes=200000-" : nil])
            // The part of the others stays, though this process had no use for it.
            #expect(await memory.entries.isEmpty == isInside)
        }
    }

    /// The operator has named the endpoint: its downloads are continued, wherever it is.
    @Test func theBeginningOfAnObjectIsContinued() async throws {
        let image = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let ranges = Mutex<[String?]>([])
        try await OriginServer.run(responding: { request in
            let range = request.headers["range"]
            ranges.withLock { $0.append(range) }
            let headers = [("ETag", "\"1\""), ("Accept-Ranges", "bytes")]
            guard range == "bytes=200000-" else {
                return .init(headers: headers, body: image.prefix(200_000), announcedLength: image.count)
            }
            let rest = ("Content-Range", "bytes 200000-299999/300000")
            return .init(status: 206, headers: headers + [rest], body: image.dropFirst(200_000))
        }) { (origin) async throws in
            let memory = Memory()
            let request = ImageRequest(url: try S3Location(bucket: "bucket", key: "a").url)
            func pipeline() -> ImagePipeline {
                var loader = DataLoader.Configuration()
                loader.s3 = S3Endpoint(url: origin.url(""))
                loader.urlPolicy.schemes.insert("s3")
                var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
                configuration.urlPolicy = loader.urlPolicy
                configuration.urlPolicy.addresses = AddressPolicy()
                configuration.resumableDataCache = memory
                return ImagePipeline(configuration: configuration)
            }
            await #expect(throws: ImagePipeline.Error.self) { try await pipeline().data(for: request) }
            #expect(try await pipeline().data(for: request).0 == image)
            #expect(ranges.withLock { $0 } == [nil, "bytes=200000-"])
        }
    }

    /// Fault: a process with another store of the same buckets had the objects and the failures of the first one from
    /// their cache.
    @Test(arguments: ["a", "missing"]) func anObjectOfAnotherStoreIsAnotherOne(_ key: String) async throws {
        let memory = Memory()
        let request = ImageRequest(url: try S3Location(bucket: "bucket", key: key).url)
        func answer(_ image: Data) -> @Sendable (String) -> OriginServer.Answer {
            { $0.hasSuffix("/a") ? .image(image, headers: [("Cache-Control", "max-age=600")]) : .init(status: 404) }
        }
        try await OriginServer.run(answer: answer(image)) { [self] (first) async throws in
            let other = TestImage.quarters(width: 48, height: 48)
            try await OriginServer.run(answer: answer(other)) { (second) async throws in
                func load(from origin: OriginServer) async throws -> Data {
                    var loader = DataLoader.Configuration()
                    loader.s3 = S3Endpoint(url: origin.url(""))
                    loader.urlPolicy.schemes.insert("s3")
                    var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
                    configuration.urlPolicy = loader.urlPolicy
                    configuration.dataCache = memory
                    configuration.dataCachePolicy = .storeAll
                    return try await ImagePipeline(configuration: configuration).data(for: request).0
                }
                if key == "a" {
                    for _ in 0..<2 { #expect(try await load(from: first) == image) }
                    #expect(first.total == 1, "it is cached for its own store")
                    #expect(try await load(from: second) == other)
                } else {
                    for origin in [first, second] {
                        await #expect(throws: ImagePipeline.Error.self) { try await load(from: origin) }
                        #expect(origin.total == 1)
                    }
                }
            }
        }
    }

    @Test func entriesNameTheirStore() {
        func origins(_ url: String?, _ addresses: AddressPolicy? = nil) -> EntryOrigins {
            EntryOrigins(addresses: addresses, endpoint: S3Endpoint(url: url.flatMap { URL(string: $0) }))
        }
        let (aws, own) = (origins(nil), origins("http://store.example:9000", AddressPolicy()))
        #expect(aws.permits(aws.store) && own.permits(own.store))
        #expect(!aws.permits(own.store) && !own.permits(aws.store))
        #expect(own.permits(nil) && !own.permits("10.0.0.1") && aws.permits("10.0.0.1"))
        // Other ways to write the same store.
        #expect(origins("https://s3.eu-west-1.amazonaws.com").store == aws.store)
        #expect(origins("HTTP://Store.example:9000/").store == own.store)
        #expect(origins("https://store.example").store == origins("https://store.example:443/").store)
        #expect(origins("https://store.example/a").store != origins("https://store.example/b").store)
        #expect(own.isOfOtherStore(aws.store) && !own.isOfOtherStore("10.0.0.1") && !own.isOfOtherStore(nil))
    }

    /// Fault: an entry of an earlier store was neither used nor replaced, so that each request fetched.
    @Test func anEntryOfAnotherStoreIsDiscarded() async throws {
        let other = EntryOrigins(addresses: nil, endpoint: S3Endpoint(url: URL(string: "http://old.example")))
        var metadata = CachedData.Metadata(etag: "\"a\"", lifetime: 60)
        metadata.address = other.store
        let memory = Memory()
        let shared = LocalSingleFlight(cache: memory)
        let key = CacheKey(.original, ["store"])
        await shared.store(CachedData(data: Data([1]), metadata: metadata), for: key)
        let flights = OriginCheckedFlights(shared, EntryOrigins(addresses: nil, endpoint: S3Endpoint()))
        let decision = try #require(await flights.begin([key], after: []).first)
        #expect(decision.entry == nil && decision.leader != nil)
        #expect(await memory.entries.isEmpty, "the next one is stored in its place")
    }

    /// Nothing was received from it, but the failure shows that nothing listens there.
    @Test func aRefusedConnectionHasAnAddress() async throws {
        let port = try PortReservation()
        let url = try named(try #require(URL(string: "http://x:\(port.port)/a")))
        let inside = pipeline(AddressPolicy(allowsPrivate: true)) { _ in }
        let error = await #expect(throws: ImagePipeline.Error.self) {
            try await inside.renditions([small], for: ImageRequest(url: url))
        }
        #expect(error?.code == .unreachable && error?.address == "127.0.0.1")
        withExtendedLifetime(port) {}
    }

    @Test func aPrivateHopCountsBehindPublicOnes() {
        var timings = LoadTimings()
        for (hop, special) in [
            ("93.184.215.14", nil), ("10.0.0.5", "10.0.0.5"), ("10.0.0.5", "10.0.0.5"),
            ("93.184.215.14", "10.0.0.5"), ("10.0.0.6", "10.0.0.5, 10.0.0.6"), ("8.8.8.8", "10.0.0.5, 10.0.0.6"),
        ] as [(String, String?)] {
            timings.addHop(hop)
            #expect(timings.specialAddress == special && timings.remoteAddress == hop)
        }
        // One of the two is not permitted.
        var policy = AddressPolicy()
        policy.exceptions = [IPAddress("10.0.0.5")].compactMap { $0 }.reduce(into: []) { $0.insert($1) }
        #expect(policy.permitsOrigin("10.0.0.5") && !policy.permitsOrigin("10.0.0.5, 10.0.0.6"))
        #expect(AddressPolicy(allowsPrivate: true).permitsOrigin("10.0.0.5, 10.0.0.6"))
    }

    @Test func anExceptionOrAPublicAddressPermitsThem() throws {
        let (one, two) = (try #require(IPAddress("10.0.0.5")), try #require(IPAddress("10.0.0.6")))
        var policy = AddressPolicy()
        policy.exceptions = [one]
        #expect(policy.permitsOrigin(one.description) && !policy.permitsOrigin(two.description))
        #expect(policy.permitsOrigin("93.184.215.14"))
        #expect(!policy.permitsOrigin("fe80::1%eth0"), "an address that cannot be parsed")
        #expect(AddressPolicy(allowsPrivate: true).permitsOrigin("fe80::1%eth0"))
        var timings = LoadTimings()
        for (address, special) in [
            (nil, nil), ("93.184.215.14", nil), ("10.0.0.5", "10.0.0.5"), ("::1", "::1"), ("x", "x"),
        ] as [(String?, String?)] {
            timings.remoteAddress = address
            #expect(timings.specialAddress == special)
        }
    }

    /// A 304 from a public address confirms bytes that came from a private one.
    @Test func theAddressStaysWithTheBytes() throws {
        var metadata = CachedData.Metadata(etag: "\"a\"", lifetime: 60)
        metadata.address = "10.0.0.5"
        #expect(metadata.refreshed(by: ["etag": "\"a\"", "cache-control": "max-age=5"])?.address == "10.0.0.5")
        #expect(metadata.inherited(at: Date()).address == "10.0.0.5")
        let rendition = CachedData(data: Data([1]), metadata: metadata)
        #expect(rendition.prolonged(by: CachedData.Metadata(lifetime: 60)).metadata.address == "10.0.0.5")
        let blob = try CachedData(data: Data([1]), metadata: metadata).encoded()
        #expect(CachedData(encoded: blob)?.metadata.address == "10.0.0.5")
    }

    /// Otherwise an outsider could find out which paths a private network has.
    @Test func aRememberedFailureIsNotAnsweredFromOutside() async throws {
        try await OriginServer.run(answer: { path in
            let headers = path == "/exclusive" ? [("Cache-Control", "no-store")] : []
            return path == "/missing" ? .init(status: 404) : .image(Data(image.prefix(100)), headers: headers)
        }) { (origin) async throws in
            for path in ["/missing", "/corrupt", "/exclusive"] {
                let inside = pipeline(AddressPolicy(allowsPrivate: true)) { _ in }
                let request = ImageRequest(url: try named(origin.url(path)))
                let error = await #expect(throws: ImagePipeline.Error.self) {
                    try await inside.renditions([small], for: request)
                }
                let failure = try #require(error)
                #expect(failure.address == "127.0.0.1", "\(path)")
                let failing = Failing(failure)
                let outside = OriginCheckedFlights(
                    failing,
                    EntryOrigins(addresses: AddressPolicy(), endpoint: S3Endpoint())
                )
                let decision = try #require(await outside.begin([failing.key]).first)
                #expect(decision.leader != nil && decision.leader?.token == nil)
                #expect(await outside.bindingFailure(for: failing.key) == nil)
                let permitted = OriginCheckedFlights(
                    failing,
                    EntryOrigins(addresses: AddressPolicy(allowsPrivate: true), endpoint: S3Endpoint())
                )
                #expect(await permitted.begin([failing.key]).first?.leader == nil)
                #expect(await permitted.bindingFailure(for: failing.key) == failure)
                // As another process receives it.
                let copy = try JSONDecoder().decode(ImageError.self, from: JSONEncoder().encode(failure))
                #expect(copy.address == "127.0.0.1")
            }
        }
    }

    /// Remembers a failure of each key.
    private struct Failing: SingleFlightCoordinating {
        let key = CacheKey(.original, ["failing"])
        let error: ImageError

        init(_ error: ImageError) { self.error = error }

        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            keys.map { _ in .failed(error) }
        }

        func bindingFailure(for key: CacheKey) async -> ImageError? { error }

        func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async {}

        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }

        func wait(for flight: SingleFlight.Waiter) async {}
    }

    /// The flight of a stale entry is given up at once, and the entry stays for those who may have it.
    @Test func aStaleEntryIsNotRevalidatedFromOutside() async throws {
        let key = CacheKey(.original, ["special"])
        var metadata = CachedData.Metadata(etag: "\"a\"", lifetime: 60, staleWhileRevalidate: 60)
        metadata.address = "127.0.0.1"
        let entry = CachedData(data: Data([1]), metadata: metadata, staleness: 5)
        let given = GivenUp(entry)
        let flights = OriginCheckedFlights(given, EntryOrigins(addresses: AddressPolicy(), endpoint: S3Endpoint()))
        let decision = try #require(await flights.begin([key]).first)
        #expect(decision.entry == nil && decision.leader?.stale == nil && decision.leader?.token == nil)
        #expect(await given.failed == [key])
        let permitted = OriginCheckedFlights(
            given,
            EntryOrigins(addresses: AddressPolicy(allowsPrivate: true), endpoint: S3Endpoint())
        )
        #expect(await permitted.begin([key]).first?.entry == entry)
        #expect(await given.failed == [key], "a flight that may go on was given up")
    }

    /// Leads each key with a stale entry.
    private actor GivenUp: SingleFlightCoordinating {
        let entry: CachedData
        var failed: [CacheKey] = []

        init(_ entry: CachedData) { self.entry = entry }

        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            keys.map { .stale(entry, SingleFlight.Leader(key: $0, token: 7, stale: entry)) }
        }

        func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async { failed += leaders.map(\.key) }

        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }

        func wait(for flight: SingleFlight.Waiter) async {}
    }
}
