import Foundation
import FoundationNetworking
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// The limits of loads and of waits, at their edges and with their default values.
@Suite(.timeLimit(.minutes(2))) struct LoadLimitTests {
    private let body = Data((0..<5000).map { UInt8(truncatingIfNeeded: $0) })

    /// All digits are shown: a number beyond a limit does not look equal to it.
    @Test(arguments: [
        (81_000_000, "81"), (50_000_001, "50.000001"), (19_000, "0.019"), (0, "0"), (12_500_000, "12.5"),
        (1, "0.000001"),
    ])
    func pixelsAreShownInMillions(_ pixels: Int, _ text: String) {
        #expect(RenderLimits.megapixels(pixels) == text)
    }

    @Test func theDefaultsAreThoseOfTheArticle() {
        let render = RenderLimits()
        #expect(render.pixels == 50_000_000 && render.side == 16_384 && render.bands == 5 && render.frames == 256)
        #expect(render.outputSide == 8192 && render.outputPixels == 50_000_000 && render.time == .seconds(30))
        let load = DataLoader.Configuration()
        #expect(load.maximumBodySize == 64 << 20 && load.maximumRedirects == 5 && CurlRequest.headerLimit == 64 << 10)
        #expect(load.connectTimeout == .seconds(5) && load.timeout == .seconds(20))
        #expect(load.lowSpeedLimit == 1024 && load.lowSpeedTime == .seconds(10))
        #expect(load.addressPolicy == AddressPolicy(allowsPrivate: false, ports: [80, 443]))
        #expect(load.urlPolicy.schemes == ["http", "https", "file", "data"])
        #expect(load.maximumHostConnections == 32 && load.maximumConnections == 256)
        let pipeline = ImagePipeline.Configuration()
        #expect(pipeline.maximumDataSize == 64 << 20 && pipeline.fetchConcurrency == 32)
        #expect(pipeline.refreshConcurrency == 16 && pipeline.waitBudget == .seconds(30))
        #expect(pipeline.rateLimiter == nil && pipeline.urlPolicy == load.urlPolicy)
    }

    // MARK: - Bytes

    @Test(arguments: [false, true]) func aBodyMayHaveWhatTheLimitSays(isLengthUnknown: Bool) async throws {
        let stream = isLengthUnknown ? OriginStream(piece: Data(count: 500), total: 2500) : nil
        let total = body.count + (isLengthUnknown ? 2500 : 0)
        try await OriginServer.run(answer: { _ in .init(body: body, stream: stream) }) { (origin) async throws in
            let roomy = DataLoader.local { $0.maximumBodySize = total }
            let fitting = await LoadProbe.load(origin.url("/a"), with: roomy)
            #expect(fitting.error == nil && fitting.data.count == total)
            let narrow = DataLoader.local { $0.maximumBodySize = total - 1 }
            let probe = await LoadProbe.load(origin.url("/a"), with: narrow)
            #expect(probe.failure?.code == .dataTooLarge && probe.failure?.isRetryable == false)
        }
    }

    /// The pipeline's limit applies whatever limit the loader has, and to sources without a loader.
    @Test func aPipelinesOwnLimitIsForAllSources() async throws {
        let directory = try TestDirectory()
        let file = URL(fileURLWithPath: try directory.write(body, to: "a.bin"))
        let sources = [
            ImageRequest(url: TestPipeline.url), ImageRequest(id: "closure", data: { [body] in body }),
            ImageRequest(url: file),
        ]
        let edges: [(Int, ImagePipeline.Error.Code?)] = [(body.count, nil), (body.count - 1, .dataTooLarge)]
        for (limit, code) in edges {
            let pipeline = TestPipeline.make(ScriptedLoader([.init(chunks: [body.prefix(100), body.dropFirst(100)])])) {
                $0.maximumDataSize = limit
                $0.fileAccess = FileAccess(roots: [directory.path])
            }
            for source in sources {
                #expect(await TestPipeline.code { try await pipeline.data(for: source) } == code, "\(source)")
            }
        }
    }

    @Test func aHeaderMayHaveWhatTheLimitSays() async throws {
        // The 1 KiB between the two covers the status line and the fields that a server adds by itself.
        let sizes = ["/fits": CurlRequest.headerLimit - 1024, "/not": CurlRequest.headerLimit + 1]
        try await OriginServer.run(answer: { path in
            let fields = (0..<16).map { ("X-\($0)", String(repeating: "a", count: sizes[path, default: 0] / 16 - 8)) }
            return .init(headers: fields + [("X-Rest", String(repeating: "a", count: 128))], body: Data("x".utf8))
        }) { (origin) async throws in
            let loader = DataLoader.local()
            #expect(await LoadProbe.load(origin.url("/fits"), with: loader).error == nil)
            let probe = await LoadProbe.load(origin.url("/not"), with: loader)
            #expect(probe.failure?.code == .headerTooLarge && probe.failure?.isRetryable == false)
        }
    }

    // MARK: - Waiting

    /// A coordinator under which every result is being made elsewhere, forever.
    private struct BusyElsewhere: SingleFlightCoordinating {
        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            keys.map { .wait(SingleFlight.Waiter(key: $0, remaining: 10)) }
        }

        func wait(for flight: SingleFlight.Waiter) async {}
        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }
        func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {}
    }

    @Test(arguments: [Duration.zero, .seconds(3600)])
    func noCallerWaitsForOthersForever(_ budget: Duration) async throws {
        let loader = ScriptedLoader([.init(chunks: [TestPipeline.png])])
        let pipeline = TestPipeline.make(loader) {
            $0.flights = BusyElsewhere()
            $0.waitBudget = budget
        }
        let request = ImageRequest(url: TestPipeline.url)
        let original = await TestPipeline.failure { try await pipeline.data(for: request) }
        #expect(original?.code == .waitTimedOut && original?.isRetryable == true)
        let rendition = await TestPipeline.failure {
            try await pipeline.renditions([Rendition(width: 4)], for: request)
        }
        #expect(rendition?.code == .waitTimedOut && rendition?.isRetryable == true)
        #expect(loader.requests.isEmpty)
    }

    /// A coordinator under which results are being made elsewhere until callers have waited often enough.
    private final class BusyForAWhile: SingleFlightCoordinating {
        let waits = Mutex(0)
        private let needed: Int
        private let length: Duration

        init(waits needed: Int, of length: Duration) {
            self.needed = needed
            self.length = length
        }

        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            let isOver = self.waits.withLock { $0 >= needed }
            return keys.map {
                isOver
                    ? .lead(SingleFlight.Leader(key: $0, token: nil))
                    : .wait(SingleFlight.Waiter(key: $0, remaining: 10))
            }
        }

        func wait(for flight: SingleFlight.Waiter) async {
            waits.withLock { $0 += 1 }
            if length > .zero { try? await Task.sleep(for: length) }
        }

        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> { [] }
        func fail(_ leads: [SingleFlight.Leader], error: ImagePipeline.Error) async {}
    }

    /// Fault: a caller gave up after 64 waits of two seconds, even if the render that it waited for may take an hour.
    @Test func aLongBudgetAllowsManyWaits() async throws {
        let pipeline = TestPipeline.make(ScriptedLoader([.init(chunks: [TestPipeline.png])])) {
            $0.flights = BusyForAWhile(waits: 100, of: .zero)
            $0.waitBudget = .seconds(200)
        }
        let made = try await pipeline.renditions([Rendition(width: 4)], for: ImageRequest(url: TestPipeline.url))
        #expect(made.count == 1)
    }

    /// Fault: the time was checked only after a wait for each of the renditions.
    @Test func manyRenditionsWaitNoLongerThanOne() async {
        let elsewhere = BusyForAWhile(waits: .max, of: .milliseconds(50))
        let pipeline = TestPipeline.make(ScriptedLoader([.init(chunks: [TestPipeline.png])])) {
            $0.flights = elsewhere
            $0.waitBudget = .milliseconds(100)
        }
        let renditions = (1...40).map { (number: Int) in Rendition(name: "\(number)", width: number) }
        let failure = await TestPipeline.failure {
            try await pipeline.renditions(renditions, for: ImageRequest(url: TestPipeline.url))
        }
        #expect(failure?.code == .waitTimedOut)
        let count = elsewhere.waits.withLock { $0 }
        #expect(count < 40, "\(count) waits of 50 ms in 100 ms")
    }
}
