import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Stale renditions that the origin confirms by their own validators, as no cache has their original.
@Suite(.timeLimit(.minutes(2))) struct ConfirmedRenditionTests {
    private final actor Memory: DataCaching {
        private var entries: [String: Data] = [:]

        func cachedData(for key: String) -> Data? { entries[key] }
        func storeData(_ data: Data, for key: String) { entries[key] = data }
        func removeData(for key: String) { entries[key] = nil }
    }

    /// An origin whose image has versions, and which may fail. `/to/N` redirects to image N.
    private final class Site: Sendable {
        struct State {
            var version = 1
            var target = 1
            var fails = false
            var control = "no-cache"
            var redirectControl: String?
            var hasTag = true
            /// For origins that send no tag, and no 304.
            var date: String?
        }

        let state = Mutex(State())

        func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
            let state = state.withLock { $0 }
            if state.fails { return OriginServer.Answer(status: 503) }
            if request.path == "/to" {
                let control = state.redirectControl.map { [("Cache-Control", $0)] } ?? []
                return OriginServer.Answer(status: 302, headers: [("Location", "/\(state.target)")] + control)
            }
            // All versions and targets share a tag of their number, as with counters of each resource.
            let tag = state.hasTag ? [("ETag", "\"\(state.version)\"")] : []
            let date = state.date.map { [("Last-Modified", $0)] } ?? []
            let headers = [("Cache-Control", state.control)] + tag + date
            if state.hasTag, request.headers["if-none-match"] == "\"\(state.version)\"" {
                return OriginServer.Answer(status: 304, headers: headers)
            }
            let number = request.path == "/2" ? 2 : state.version
            return .image(TestImage.quarters(width: 64 * number, height: 64), headers: headers)
        }
    }

    private let site = Site()
    private let small = Rendition(width: 32, height: 32, format: .png)
    private let other = Rendition(width: 16, height: 16, format: .png)

    private func run(_ body: (OriginServer, ImagePipeline) async throws -> Void) async throws {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        configuration.flights = LocalSingleFlight(cache: Memory())
        configuration.dataCachePolicy = .storeEncodedImages
        let pipeline = ImagePipeline(configuration: configuration)
        try await OriginServer.run(responding: { [site] in site.answer($0) }) { (origin) async throws in
            try await body(origin, pipeline)
        }
    }

    @Test func anUnchangedRenditionNeedsNoOriginal() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            for number in 2...3 {
                let metrics = PipelineMetrics()
                let again = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
                #expect(again.data == first.data && again.source == .cache)
                #expect(metrics.counts.revalidations == 1 && metrics.counts.renders == 0)
                #expect(metrics.counts.bytesIn == 0 && origin.total == number)
            }
        }
    }

    /// Its bytes are needed for the other one, so that no condition is sent. The rendition that exists is not made
    /// again.
    @Test func aMissingRenditionNeedsTheOriginal() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            let metrics = PipelineMetrics()
            let both = try await pipeline.renditions([small, other], for: request, metrics: metrics)
            #expect(both[0].data == first.data && both.map(\.source) == [.cache, .render])
            #expect(metrics.counts.revalidations == 0 && metrics.counts.renders == 1 && origin.total == 2)
        }
    }

    /// A load that needs the bytes waits while renditions are confirmed, and then fetches them: nothing was stored.
    @Test func aConfirmationIsNoOriginal() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            origin.hold()
            async let again = pipeline.renditions([small], for: request)[0]
            await origin.waitForRequests("/a", count: 2)
            async let another = pipeline.renditions([other], for: request)[0]
            origin.release()
            #expect(try await again.data == first.data)
            #expect(try await another.source == .render)
            #expect(origin.total == 3)
        }
    }

    @Test func aChangedOriginalReplacesTheRendition() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            site.state.withLock { $0.version = 2 }
            let second = try await pipeline.renditions([small], for: request)[0]
            #expect(second.source == .render && second.data != first.data)
            let metrics = PipelineMetrics()
            let third = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
            #expect(third.data == second.data && metrics.counts.revalidations == 1 && origin.total == 3)
        }
    }

    // Fault: the date was taken for proof that the bytes are the same.
    @Test func anOriginalThatIsReplacedWithinASecondReplacesTheRendition() async throws {
        try await run { origin, pipeline in
            site.state.withLock {
                $0.hasTag = false
                $0.date = "Wed, 21 Oct 2015 07:28:00 GMT"
            }
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            let same = try await pipeline.renditions([small], for: request)[0]
            #expect(same.source == .cache && same.data == first.data && origin.total == 2)
            site.state.withLock { $0.version = 2 }
            let second = try await pipeline.renditions([small], for: request)[0]
            #expect(second.source == .render && second.data != first.data)
        }
    }

    /// Only `stale-if-error` allows the stale rendition in place of a failure, and it does not become fresh then.
    @Test(arguments: ["no-cache", "max-age=0, stale-if-error=600"])
    func aFailureOfTheOriginConfirmsNothing(_ control: String) async throws {
        try await run { origin, pipeline in
            site.state.withLock { $0.control = control }
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            site.state.withLock { $0.fails = true }
            for number in 2...3 {
                let metrics = PipelineMetrics()
                let second = try? await pipeline.renditions([small], for: request, metrics: metrics)[0]
                #expect(second?.data == (control == "no-cache" ? nil : first.data))
                #expect(metrics.counts.revalidations == 0 && origin.total == number)
            }
        }
    }

    /// Fault: the validators of one target were sent to the next one, whose 304 confirmed the old image.
    @Test func aRedirectThatLeadsElsewhereIsNoConfirmation() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/to"))
            let first = try await pipeline.renditions([small], for: request)[0]
            let metrics = PipelineMetrics()
            let again = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
            #expect(again.data == first.data && metrics.counts.revalidations == 1, "the same target confirms it")
            site.state.withLock { $0.target = 2 }
            let second = try await pipeline.renditions([small], for: request)[0]
            #expect(second.source == .render && second.data != first.data)
            let third = try await pipeline.renditions([small], for: request, metrics: metrics)[0]
            #expect(third.data == second.data && metrics.counts.revalidations == 2)
        }
    }

    /// The image would be fresh for a year by its own header fields.
    @Test(arguments: [("no-store", 4), ("max-age=0", 4), ("max-age=600", 2)])
    func aRedirectLimitsTheLifetime(_ control: String, _ requests: Int) async throws {
        try await run { origin, pipeline in
            site.state.withLock { ($0.control, $0.redirectControl) = ("max-age=31536000", control) }
            let request = ImageRequest(url: origin.url("/to"))
            let first = try await pipeline.renditions([small], for: request)[0]
            let again = try await pipeline.renditions([small], for: request)[0]
            #expect(again.data == first.data && again.source == .cache)
            #expect(origin.total == requests)
        }
    }

    /// Fault: `stale-while-revalidate` of the image let the old target be used although its redirect had expired.
    @Test(arguments: [
        ("no-store", "max-age=0, stale-while-revalidate=600"), ("max-age=0", "max-age=0, stale-while-revalidate=600"),
    ])
    func aRedirectLimitsTheUseOfStaleImages(_ redirect: String, _ control: String) async throws {
        try await run { origin, pipeline in
            site.state.withLock { ($0.control, $0.redirectControl) = (control, redirect) }
            let request = ImageRequest(url: origin.url("/to"))
            let first = try await pipeline.renditions([small], for: request)[0]
            site.state.withLock { $0.target = 2 }
            let second = try await pipeline.renditions([small], for: request)[0]
            #expect(second.source == .render && second.data != first.data)
        }
    }

    /// Fault: a redirect made images uncacheable that may be used stale and have no validator.
    @Test func aFreshRedirectLetsStaleImagesBeUsed() async throws {
        try await run { origin, pipeline in
            site.state.withLock { state in
                (state.control, state.redirectControl) = ("max-age=0, stale-while-revalidate=600", "max-age=3600")
                state.hasTag = false
            }
            let request = ImageRequest(url: origin.url("/to"))
            let first = try await pipeline.renditions([small], for: request)[0]
            let again = try await pipeline.renditions([small], for: request)[0]
            #expect(again.source == .cache && again.data == first.data)
        }
    }

    /// Fault: one load confirmed the renditions of both targets, so that one of them was wrong for ever.
    @Test func renditionsOfTwoTargetsAreNotConfirmedTogether() async throws {
        try await run { origin, pipeline in
            let request = ImageRequest(url: origin.url("/to"))
            let old = try await pipeline.renditions([small], for: request)[0]
            site.state.withLock { $0.target = 2 }
            let new = try await pipeline.renditions([other], for: request)[0]
            origin.hold()
            async let another = pipeline.renditions([other], for: request)[0]
            await origin.waitForRequests("/to", count: 3)
            async let again = pipeline.renditions([small], for: request)[0]
            origin.release()
            #expect(try await another.data == new.data)
            let replaced = try await again
            #expect(replaced.data != old.data && replaced.source == .render)
        }
    }

    /// Fault: a program that ended cancelled the revalidation, so that each run had the same old image.
    @Test func aRevalidationInTheBackgroundIsFinished() async throws {
        try await run { origin, pipeline in
            site.state.withLock { $0.control = "max-age=0, stale-while-revalidate=600" }
            let request = ImageRequest(url: origin.url("/a"))
            let first = try await pipeline.renditions([small], for: request)[0]
            site.state.withLock { $0.version = 2 }
            origin.hold()
            #expect(try await pipeline.renditions([small], for: request)[0].data == first.data)
            await origin.waitForRequests("/a", count: 2)
            async let left = pipeline.finishBackgroundWork(within: .seconds(60))
            origin.release()
            #expect(await left == 0)
            let second = try await pipeline.renditions([small], for: request)[0]
            #expect(second.source == .cache && second.data != first.data)
            #expect(origin.total == 2, "no more revalidations begin")
        }
    }
}
