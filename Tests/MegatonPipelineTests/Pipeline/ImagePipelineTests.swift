import Foundation
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct ImagePipelineTests {
    private func pipeline(_ change: (inout ImagePipeline.Configuration) -> Void = { _ in }) throws -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.addressPolicy.allowsPrivate = true
        var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
        change(&configuration)
        return ImagePipeline(configuration: configuration)
    }

    private func code(_ body: () async throws -> Void) async -> ImagePipeline.Error.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? ImagePipeline.Error)?.code
        }
    }

    private let small = Rendition(width: 32, height: 32, format: .png)

    // Without coalescing each call makes its own renditions.
    @Test func renditionsAreMadeEachWhereCoalescingIsDisabled() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = try pipeline { $0.isTaskCoalescingEnabled = false }
            let url = origin.url("/a")
            origin.hold()
            let tasks = (0..<2).map { _ in
                Task { try await pipeline.renditions([small], for: .init(url: url)) }  // Awaited below.
            }
            while origin.count("/a") < 2, pipeline.groups.subscriberCount < 2, !Task.isCancelled {
                await Task.yield()
            }
            origin.release()
            for task in tasks { #expect(try await task.value[0].source == .render) }
            #expect(origin.total == 2)
        }
    }

    @Test func manyRequestsAreOneFetchAndOneRender() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = try pipeline()
            origin.hold()
            let all = (0..<20).map { _ in PipelineMetrics() }
            let responses = try await withThrowingTaskGroup(of: RenditionResponse.self) { group in
                for metrics in all {
                    group.addTask {
                        try await pipeline.renditions([small], for: .init(url: origin.url("/a")), metrics: metrics)[0]
                    }
                }
                await origin.waitForRequests("/a", count: 1)
                origin.release()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(origin.total == 1)
            #expect(Set(responses.map(\.data)).count == 1)
            #expect(responses.count { $0.source == .render } == 1)
            #expect(all.reduce(0) { $0 + $1.counts.renders } == 1)
        }
    }

    @Test func differentSourcesOfOneHostAreFetchedSideBySide() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = try pipeline()
            origin.hold()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        _ = try await pipeline.renditions([small], for: .init(url: origin.url("/\(number)")))
                    }
                }
                for number in 0..<8 { await origin.waitForRequests("/\(number)", count: 1) }
                origin.release()
                try await group.waitForAll()
            }
            #expect(origin.total == 8)
        }
    }

    @Test func severalRenditionsComeFromOneFetch() async throws {
        let image = TestImage.quarters(width: 400, height: 300)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let wanted = [
                Rendition(name: "a", width: 200),
                Rendition(name: "b", width: 50, height: 50, fit: .cover, format: .webp),
                Rendition(name: "c", width: 100, height: 100, fit: .contain, format: .png),
                Rendition(name: "d", width: 64, format: .avif),
            ]
            let responses = try await pipeline().renditions(wanted, for: .init(url: origin.url("/a")))
            #expect(origin.total == 1)
            #expect(responses.map(\.rendition.name) == ["a", "b", "c", "d"])
            #expect(responses.map(\.size.description) == ["200x150", "50x50", "100x100", "64x48"])
            #expect(responses.map { AssetType($0.data) } == [.jpeg, .webp, .png, .avif])
        }
    }

    // Cancelling one of two requests does not affect the other.
    @Test func aFollowerKeepsTheWorkOfALeaderThatWasCancelled() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = try pipeline()
            origin.hold()
            let url = origin.url("/a")
            let leader = Task { try await pipeline.renditions([small], for: .init(url: url)) }  // Awaited below.
            await origin.waitForRequests("/a", count: 1)
            let follower = Task { try await pipeline.renditions([small], for: .init(url: url)) }  // Awaited below.
            while pipeline.groups.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
            leader.cancel()
            await #expect(throws: ImagePipeline.Error.self) { try await leader.value }
            origin.release()
            #expect(try await follower.value[0].size == PixelSize(width: 32, height: 32))
            #expect(origin.count("/a") == 1)
        }
    }

    @Test func aCacheServesTheSecondRequest() async throws {
        final actor Memory: DataCaching {
            var entries: [String: Data] = [:]
            func cachedData(for key: String) -> Data? { entries[key] }
            func storeData(_ data: Data, for key: String) { entries[key] = data }
        }
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { path in
            .image(image, headers: path == "/private" ? [("Cache-Control", "private")] : [])
        }) { (origin) async throws in
            let memory = Memory()
            let pipeline = try pipeline { $0.flights = LocalSingleFlight(cache: memory) }
            for _ in 0..<2 { _ = try await pipeline.renditions([small], for: .init(url: origin.url("/a"))) }
            #expect(origin.count("/a") == 1)
            #expect(await memory.entries.count == 2)
            let metrics = PipelineMetrics()
            let other = Rendition(width: 16, height: 16)
            _ = try await pipeline.renditions([other], for: .init(url: origin.url("/a")), metrics: metrics)
            #expect(metrics.counts.originalHits == 1 && metrics.counts.renders == 1 && origin.count("/a") == 1)
            for _ in 0..<2 { _ = try await pipeline.renditions([small], for: .init(url: origin.url("/private"))) }
            #expect(origin.count("/private") == 2)
            #expect(await memory.entries.count == 3)
        }
    }

    @Test func reportsTheErrorOfASource() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { path in
            switch path {
            case "/missing": .init(status: 404)
            case "/busy": .init(status: 503, headers: [("Retry-After", "7")])
            case "/empty": .init()
            case "/html": .init(headers: [("Content-Type", "image/jpeg")], body: Data("<!DOCTYPE html><p>".utf8))
            case "/short": .init(body: image.prefix(100), announcedLength: image.count)
            case "/broken": .image(image.prefix(image.count / 2))
            case "/bomb": .image(TestImage.bomb(width: 30_000, height: 30_000))
            case "/round": .init(status: 302, headers: [("Location", "/round")])
            case "/out": .init(status: 302, headers: [("Location", "file:///etc/passwd")])
            default: .image(image)
            }
        }) { (origin) async throws in
            let pipeline = try pipeline()
            for (path, expected, isRetryable) in [
                ("/missing", ImagePipeline.Error.Code.notFound, false), ("/busy", .httpStatus, true),
                ("/empty", .dataIsEmpty, false), ("/html", .unsupportedFormat, false),
                ("/short", .incompleteBody, true), ("/broken", .corruptImage, false), ("/bomb", .sideTooLong, false),
                ("/round", .tooManyRedirects, false), ("/out", .invalidURL, false),
            ] {
                do {
                    _ = try await pipeline.renditions([small], for: .init(url: origin.url(path)))
                    Issue.record("\(path) was accepted")
                } catch let error as ImagePipeline.Error {
                    #expect(error.code == expected && error.isRetryable == isRetryable, "\(path): \(error)")
                    #expect(error.message.contains(path), "\(error)")
                    if path == "/busy" { #expect(error.retryAfter == 7) }
                }
            }
            #expect(origin.count("/round") == 6, "the first and five redirects")
        }
    }

    @Test func closedPortsAndUnknownNamesAreUnreachable() async throws {
        let port = try FreePort.find()
        let pipeline = try pipeline()
        for url in ["http://127.0.0.1:\(port)/a.jpg", "http://no-such-host.invalid/a.jpg"] {
            let error = await code { _ = try await pipeline.renditions([small], for: .init(url: URL(string: url)!)) }
            #expect(error == .unreachable, "\(url)")
        }
    }

    @Test func privateAddressesAreRefusedUnlessAllowed() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            let pipeline = ImagePipeline()
            let urls = [
                origin.url("/a"), URL(string: "http://localhost:\(origin.port)/a")!,
                URL(string: "http://[::ffff:127.0.0.1]:\(origin.port)/a")!,
                URL(string: "http://2130706433:\(origin.port)/a")!,
            ]
            for url in urls {
                let error = await code { _ = try await pipeline.renditions([small], for: .init(url: url)) }
                #expect(error == .forbidden, "\(url)")
            }
            #expect(origin.total == 0)
        }
    }

    @Test func aBodyBeyondTheLimitIsCutOff() async throws {
        let image = TestImage.quarters(width: 300, height: 300)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            loader.maximumBodySize = image.count - 1
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .dataTooLarge)
        }
    }

    @Test func anOriginThatNeverAnswersTimesOut() async throws {
        try await OriginServer.run(answer: { _ in .init() }) { (origin) async throws in
            origin.hold()
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            loader.timeout = .milliseconds(200)
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .timedOut)
        }
    }

    @Test(arguments: [false, true]) func aDrippingBodyTimesOut(isHeader: Bool) async throws {
        let piece = Data((isHeader ? "X-Drip: 1\r\n" : "x").utf8)
        let drip = OriginStream(piece: piece, interval: .milliseconds(20), isHeader: isHeader)
        try await OriginServer.run(answer: { _ in .init(stream: drip) }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            loader.timeout = .milliseconds(400)
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .timedOut)
            #expect(origin.streamed("/a") > 0, "it was not silent")
        }
    }

    @Test func aBodyThatDripsEndsBeforeItsTimeIsOver() async throws {
        let drip = OriginStream(piece: Data("x".utf8), interval: .milliseconds(20))
        try await OriginServer.run(answer: { _ in .init(stream: drip) }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            loader.lowSpeedTime = .seconds(1)
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            let start = ContinuousClock.now
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .tooSlow)
            #expect(start.duration(to: .now) < loader.timeout / 2)
        }
    }

    @Test func aBodyWithoutEndIsCutOff() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        let endless = OriginStream(piece: Data(count: 64 * 1024))
        try await OriginServer.run(answer: { _ in .init(body: image, stream: endless) }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            loader.maximumBodySize = 1024 * 1024
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .dataTooLarge)
            #expect(origin.streamed("/a") > 1024 * 1024 / 2, "it was cut by what came")
        }
    }

    @Test func aHeaderWithoutEndIsCutOff() async throws {
        let fields = String(repeating: "X-Filler: 1\r\n", count: 1000)
        let endless = OriginStream(piece: Data(fields.utf8), isHeader: true)
        try await OriginServer.run(answer: { _ in .init(stream: endless) }) { (origin) async throws in
            let pipeline = try pipeline()
            let request = ImageRequest(url: origin.url("/a"))
            #expect(await code { _ = try await pipeline.renditions([small], for: request) } == .headerTooLarge)
        }
    }

    @Test func readsFilesAndDataURLs() async throws {
        let directory = try TestDirectory()
        let image = TestImage.quarters(width: 64, height: 64)
        let path = try directory.write(image, to: "a.png")
        let pipeline = try pipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let file = ImageRequest(url: URL(fileURLWithPath: path))
        #expect(try await pipeline.renditions([small], for: file)[0].size == PixelSize(width: 32, height: 32))
        let inline = ImageRequest(url: URL(string: "data:image/png;base64,\(image.base64EncodedString())")!)
        #expect(try await pipeline.renditions([small], for: inline)[0].size == PixelSize(width: 32, height: 32))
        let outside = ImageRequest(url: URL(fileURLWithPath: "/etc/hostname"))
        #expect(await code { _ = try await pipeline.renditions([small], for: outside) } == .forbidden)
    }

    @Test func transparencyIsKeptOrFlattened() async throws {
        let directory = try TestDirectory()
        let half = TestImage.png(width: 64, height: 64) { x, _ in x < 32 ? (255, 0, 0, 255) : (0, 0, 0, 0) }
        let path = try directory.write(half, to: "a.png")
        let pipeline = try pipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let wanted = [
            Rendition(name: "kept", width: 32, format: .png), Rendition(name: "white", width: 32, format: .jpeg),
            Rendition(name: "black", width: 32, format: .jpeg, background: .black),
        ]
        let responses = try await pipeline.renditions(wanted, for: .init(url: URL(fileURLWithPath: path)))
        let kept = try PixelReader(responses[0].data)
        #expect(kept.bands == 4 && kept.pixel(28, 16)[3] == 0)
        #expect(kept.pixel(3, 16) == [255, 0, 0, 255])
        #expect(try PixelReader(responses[1].data).pixel(28, 16).allSatisfy { $0 > 245 })
        #expect(try PixelReader(responses[2].data).pixel(28, 16).allSatisfy { $0 < 10 })
    }

    @Test func coverCutsTheMiddleAndContainFillsUp() async throws {
        let directory = try TestDirectory()
        let stripes = TestImage.png(width: 90, height: 30) { x, _ in
            x < 30 ? (255, 0, 0, 255) : x < 60 ? (0, 255, 0, 255) : (0, 0, 255, 255)
        }
        let path = try directory.write(stripes, to: "a.png")
        let pipeline = try pipeline { $0.fileAccess = FileAccess(roots: [directory.path]) }
        let wanted = [
            Rendition(name: "cover", width: 20, height: 20, fit: .cover, format: .png),
            Rendition(
                name: "contain",
                width: 30,
                height: 30,
                fit: .contain,
                format: .jpeg,
                quality: 95,
                background: .black
            ),
        ]
        let responses = try await pipeline.renditions(wanted, for: .init(url: URL(fileURLWithPath: path)))
        let cover = try PixelReader(responses[0].data)
        #expect(cover.width == 20)
        #expect(cover.pixel(10, 10) == [0, 255, 0, 255])
        let contain = try PixelReader(responses[1].data)
        #expect(contain.height == 30 && contain.pixel(15, 2).allSatisfy { $0 < 20 })
        #expect(contain.pixel(15, 15)[1] > 200)
    }
}
