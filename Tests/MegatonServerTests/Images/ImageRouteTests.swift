import Foundation
import Hummingbird
import Logging
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import MegatonServer

/// The route of images at a real server, with a renderer of the test.
@Suite(.timeLimit(.minutes(1))) struct ImageRouteTests {
    private typealias Answer = APIServer.Answer

    private static let bytes = "0123456789"
    /// With the signature of the published example, which is for its path.
    private static let signed = "\(PublishedExample.signature)\(PublishedExample.path)"
    private static let unsigned = "unsafe/rs:fit:64:64/plain/\(PublishedExample.source)"
    private static let freshness = RenditionFreshness(lifetime: 60)

    /// The renditions that were requested.
    private final class Renderer: Sendable {
        private let requested = Mutex<[Rendition]>([])
        let result: Result<RenditionFreshness?, RenditionError>
        let data: Data
        let lastModified: String?

        init(
            _ result: Result<RenditionFreshness?, RenditionError> = .success(ImageRouteTests.freshness),
            data: Data = Data(ImageRouteTests.bytes.utf8),
            lastModified: String? = nil
        ) {
            (self.result, self.data, self.lastModified) = (result, data, lastModified)
        }

        var renditions: [Rendition] { requested.withLock { $0 } }

        func render(_ rendition: Rendition, _ url: URL) throws(RenditionError) -> RenderedImage {
            requested.withLock { $0.append(rendition) }
            return RenderedImage(
                data: data,
                format: rendition.format,
                freshness: try result.get(),
                lastModified: lastModified
            )
        }
    }

    /// Runs a server with the route while the body runs.
    private func serve(
        _ configuration: ImageServer.Configuration,
        _ renderer: Renderer = Renderer(),
        isReady: Bool = true,
        metrics: ImageMetrics = ImageMetrics(),
        stallLimit: Duration = HTTPServer.stalledWriteLimit,
        while body: @escaping @Sendable (_ port: Int) async throws -> Void
    ) async throws {
        let (started, start) = AsyncStream<Int>.makeStream()
        let router = Router(context: ServerContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: APIErrorMiddleware<ServerContext>())
        let routes = ImageRoutes(
            configuration,
            metrics: metrics,
            isReady: { isReady },
            now: { 1_000 },
            render: { (rendition, url) async throws(RenditionError) -> RenderedImage in
                try renderer.render(rendition, url)
            }
        )
        routes.add(to: router)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: router,
            server: HTTPServer.connections(stalledWriteLimit: stallLimit),
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { start.yield($0.localAddress?.port ?? 0) },
            logger: logger
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            group.addTask {
                for await port in started { return try await body(port) }
            }
            defer { group.cancelAll() }
            _ = try await group.next()
        }
    }

    private static func ask(_ port: Int, _ path: String, _ options: [String] = []) async throws -> Answer {
        let arguments = ["--silent", "--include", "--max-time", "20", "--path-as-is"] + options
        let url = "http://127.0.0.1:\(port)/image/\(path)"
        let curl = try ProgramUnderTest(program: "/usr/bin/curl", arguments: arguments + [url])
        return try Answer(await curl.ending().output)
    }

    private static func header(_ field: String) -> [String] { ["--header", field] }

    private static func unsignedConfiguration() throws -> ImageServer.Configuration {
        ImageServer.Configuration(try .unsigned())
    }

    // MARK: - Access

    @Test func theSignatureIsOfThePathAsItIsSent() async throws {
        let renderer = Renderer()
        try await serve(ImageServer.Configuration(try PublishedExample.settings()), renderer) { (port) async throws in
            let answer = try await Self.ask(port, Self.signed)
            #expect(answer.status == 200 && answer.body == Self.bytes)
            #expect(answer.field("Content-Type") == "image/png")
            #expect(answer.field("Vary") == nil, "the URL names the format")
            // A query is not signed.
            #expect(try await Self.ask(port, Self.signed + "?a=1").status == 200)
            for path in [Self.signed + "x", Self.signed.replacingOccurrences(of: "300", with: "301"), "unsafe/w:1/a"] {
                let refused = try await Self.ask(port, path)
                #expect(refused.status == 403, "\(path)")
                #expect(try refused.detail().contains("signature"))
            }
            #expect(try await Self.ask(port, "a").status == 400)
        }
        let rendition = try #require(renderer.renditions.first)
        #expect(renderer.renditions.count == 2 && rendition.width == 300 && rendition.height == 400)
    }

    @Test(arguments: ["POST", "PUT", "DELETE", "OPTIONS"]) func otherMethodsAreRefused(_ method: String) async throws {
        let renderer = Renderer()
        try await serve(ImageServer.Configuration(try PublishedExample.settings()), renderer) { (port) async throws in
            let answer = try await Self.ask(port, Self.signed, ["--request", method])
            #expect(answer.status == 405 && answer.field("Allow") == "GET, HEAD")
            #expect(try answer.detail() == "Images have no method \(method); they have GET, HEAD.")
            #expect(try await Self.ask(port, Self.signed, ["--head"]).status == 200)
        }
        // Only the request with HEAD.
        #expect(renderer.renditions.count == 1)
    }

    @Test func invalidOptionsAndOtherSitesAreRefused() async throws {
        let renderer = Renderer()
        try await serve(try Self.unsignedConfiguration(), renderer) { (port) async throws in
            let path = "unsafe/w:wide/plain/http://example.com/a.jpg"
            let invalid = try await Self.ask(port, path)
            #expect(invalid.status == 400)
            #expect(try invalid.detail().contains("\"wide\""))
            let expired = try await Self.ask(port, "unsafe/exp:999/plain/http://example.com/a.jpg")
            #expect(expired.status == 404)
            let other = try await Self.ask(port, Self.unsigned, Self.header("Host: example.org"))
            #expect(other.status == 403)
        }
        #expect(renderer.renditions.isEmpty)
    }

    // MARK: - Responses

    @Test func theFormatFollowsTheClient() async throws {
        let renderer = Renderer()
        try await serve(try Self.unsignedConfiguration(), renderer) { (port) async throws in
            for (accept, type) in [
                ("*/*", "image/jpeg"), ("image/webp,*/*", "image/webp"), ("image/avif,image/webp", "image/avif"),
            ] {
                let answer = try await Self.ask(port, Self.unsigned, Self.header("Accept: \(accept)"))
                #expect(answer.field("Content-Type") == type && answer.field("Vary") == "Accept")
            }
        }
        #expect(renderer.renditions.map(\.format) == [.jpeg, .webp, .avif])
    }

    @Test func clientsThatHaveTheImageGetNoBody() async throws {
        try await serve(try Self.unsignedConfiguration()) { (port) async throws in
            let answer = try await Self.ask(port, Self.unsigned)
            let tag = try #require(answer.field("ETag"))
            #expect(tag.hasPrefix("\"") && tag.count == 34)
            #expect(answer.field("Cache-Control") == "public, max-age=60")
            for value in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
                let known = try await Self.ask(port, Self.unsigned, Self.header("If-None-Match: \(value)"))
                #expect(known.status == 304 && known.body.isEmpty && known.field("ETag") == tag, "\(value)")
                #expect(known.field("Cache-Control") == "public, max-age=60" && known.field("Vary") == "Accept")
            }
            let other = try await Self.ask(port, Self.unsigned, Self.header("If-None-Match: \"other\""))
            #expect(other.status == 200 && other.body == Self.bytes)
        }
    }

    /// RFC 9110 section 13.
    @Test func anotherVersionThanTheDemandedOneIsRefused() async throws {
        try await serve(try Self.unsignedConfiguration()) { (port) async throws in
            let tag = try #require(try await Self.ask(port, Self.unsigned).field("ETag"))
            for value in [tag, "\"other\", \(tag)", "*"] {
                let answer = try await Self.ask(port, Self.unsigned, Self.header("If-Match: \(value)"))
                #expect(answer.status == 200, "\(value)")
            }
            for value in ["\"other\"", "W/\(tag)"] {
                let answer = try await Self.ask(port, Self.unsigned, Self.header("If-Match: \(value)"))
                #expect(answer.status == 412 && answer.field("ETag") == tag, "\(value)")
            }
            let both = Self.header("If-Match: \"other\"") + Self.header("If-None-Match: \(tag)")
            #expect(try await Self.ask(port, Self.unsigned, both).status == 412, "If-Match is first")
        }
    }

    @Test func theTimeOfTheOriginIsACondition() async throws {
        let (before, time, after) = (
            "Thu, 01 Jan 1970 00:10:36 GMT", "Thu, 01 Jan 1970 00:10:37 GMT", "Thu, 01 Jan 1970 00:10:38 GMT"
        )
        let renderer = Renderer(lastModified: time)
        try await serve(try Self.unsignedConfiguration(), renderer) { (port) async throws in
            let answer = try await Self.ask(port, Self.unsigned)
            #expect(answer.field("Last-Modified") == time)
            for (field, value, status) in [
                ("If-Modified-Since", before, 200), ("If-Modified-Since", time, 304), ("If-Modified-Since", after, 304),
                ("If-Modified-Since", "yesterday", 200), ("If-Unmodified-Since", before, 412),
                ("If-Unmodified-Since", time, 200),
            ] {
                let answer = try await Self.ask(port, Self.unsigned, Self.header("\(field): \(value)"))
                #expect(answer.status == status, "\(field): \(value)")
            }
            let both = Self.header("If-Modified-Since: \(after)") + Self.header("If-None-Match: \"other\"")
            #expect(try await Self.ask(port, Self.unsigned, both).status == 200, "a tag counts more than a time")
        }
        // An obsolete form, and a time of the future, which a server must not send.
        for text in ["Thursday, 01-Jan-70 00:10:37 GMT", "Thu, 01 Jan 1970 00:16:41 GMT"] {
            try await serve(try Self.unsignedConfiguration(), Renderer(lastModified: text)) { (port) async throws in
                #expect(try await Self.ask(port, Self.unsigned).field("Last-Modified") == nil, "\(text)")
            }
        }
    }

    @Test func partsAndHeads() async throws {
        try await serve(try Self.unsignedConfiguration()) { (port) async throws in
            let whole = try await Self.ask(port, Self.unsigned)
            #expect(whole.field("Accept-Ranges") == "bytes" && whole.field("X-Content-Type-Options") == "nosniff")
            let part = try await Self.ask(port, Self.unsigned, Self.header("Range: bytes=2-4"))
            #expect(part.status == 206 && part.body == "234")
            #expect(part.field("Content-Range") == "bytes 2-4/10" && part.field("Content-Length") == "3")
            let beyond = try await Self.ask(port, Self.unsigned, Self.header("Range: bytes=10-"))
            #expect(beyond.status == 416 && beyond.field("Content-Range") == "bytes */10")
            let other = Self.header("Range: bytes=2-4") + Self.header("If-Range: \"other\"")
            #expect(try await Self.ask(port, Self.unsigned, other).body == Self.bytes)
            let tag = try #require(whole.field("ETag"))
            let same = Self.header("Range: bytes=2-4") + Self.header("If-Range: \(tag)")
            #expect(try await Self.ask(port, Self.unsigned, same).status == 206)
            let head = try await Self.ask(port, Self.unsigned, ["--head"])
            #expect(head.status == 200 && head.body.isEmpty && head.field("Content-Length") == "10")
            #expect(head.field("ETag") == tag && head.field("Content-Type") == "image/jpeg")
        }
    }

    /// More than a piece, in which large images are sent.
    @Test func largeImagesArriveWhole() async throws {
        let text = String(repeating: Self.bytes, count: 20_000)
        let renderer = Renderer(data: Data(text.utf8))
        try await serve(try Self.unsignedConfiguration(), renderer) { (port) async throws in
            let whole = try await Self.ask(port, Self.unsigned)
            #expect(whole.status == 200 && whole.field("Content-Length") == "200000" && whole.body == text)
            let part = try await Self.ask(port, Self.unsigned, Self.header("Range: bytes=5-150004"))
            #expect(part.status == 206 && part.body == String(text.dropFirst(5).prefix(150_000)))
            let head = try await Self.ask(port, Self.unsigned, ["--head"])
            #expect(head.status == 200 && head.body.isEmpty && head.field("Content-Length") == "200000")
        }
    }

    /// A client that does not read holds the memory of its image, but not for long.
    @Test func aClientThatDoesNotReadIsCutOff() async throws {
        // More than the system buffers for a connection.
        let renderer = Renderer(data: Data(repeating: UInt8(ascii: "a"), count: 32 << 20))
        var configuration = try Self.unsignedConfiguration()
        configuration.sendingLimit = 1
        let limited = configuration
        try await serve(limited, renderer, stallLimit: .seconds(3)) { (port) async throws in
            let request = "GET /image/\(Self.unsigned) HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
            let script =
                "exec 3<>/dev/tcp/127.0.0.1/\(port); printf '\(request)' >&3; "
                + "read -r line <&3; echo \"$line\"; exec sleep 100"
            let client = try ProgramUnderTest(program: "/bin/bash", arguments: ["-c", script])
            try await client.waitForOutput { $0.contains("HTTP/1.1 200") }
            let part = Self.header("Range: bytes=0-99999")
            // Fault: the memory counted as free while most of the image waited in the connection.
            #expect(try await Self.ask(port, Self.unsigned, part).status == 503)
            // Each question takes a process, so this is no busy loop; the suite's time limit bounds it.
            while try await Self.ask(port, Self.unsigned, part).status == 503 { try Task.checkCancellation() }
            let answer = try await Self.ask(port, Self.unsigned, part)
            #expect(answer.status == 206 && answer.body.utf8.count == 100_000)
            client.send(SIGKILL)
            _ = await client.ending()
        }
    }

    @Test func theMemoryOfImagesIsLimited() throws {
        let sender = ImageSender(maximum: 150_000)
        let (data, loop) = (Data(count: 100_000), MultiThreadedEventLoopGroup.singleton.next())
        var first: ResponseBody? = try sender.body(data, on: loop)
        #expect(first != nil)
        #expect(throws: APIError.self) { try sender.body(data, on: loop) }
        // Small images are not counted.
        _ = try sender.body(Data(count: 1_000), on: loop)
        first = nil
        _ = try sender.body(Data(count: 200_000), on: loop)
        _ = try sender.body(data, on: loop)
    }

    @Test(
        arguments: [
            (nil, "no-store"), (RenditionFreshness(lifetime: 0), "public, max-age=0"),
            (
                RenditionFreshness(lifetime: 60, staleWhileRevalidate: 30),
                "public, max-age=60, stale-while-revalidate=30"
            ),
            (RenditionFreshness(lifetime: 600, clientLifetime: 60), "public, max-age=60, s-maxage=600"),
            // Fault: caches in front of the server could use a stale image, which the origin forbids.
            (RenditionFreshness(lifetime: 60, mayBeStale: false), "public, max-age=60, must-revalidate"),
            (RenditionFreshness(lifetime: 0, mayBeStale: false), "public, max-age=0, must-revalidate"),
            (RenditionFreshness(lifetime: 5, isStated: false), "public, max-age=3600, stale-while-revalidate=3600"),
            (RenditionFreshness(lifetime: 5, isStated: false, mayBeStale: false), "public, max-age=3600"),
        ] as [(RenditionFreshness?, String)]
    )
    func clientsMayUseAnImageForAsLongAsTheOriginAllows(_ freshness: RenditionFreshness?, _ text: String) async throws {
        try await serve(try Self.unsignedConfiguration(), Renderer(.success(freshness))) { (port) async throws in
            #expect(try await Self.ask(port, Self.unsigned).field("Cache-Control") == text)
            // Never beyond the end of the URL, which is 10 s away.
            let ending = try await Self.ask(port, "unsafe/exp:1010/plain/\(PublishedExample.source)")
            let control = try #require(ending.field("Cache-Control"))
            let ages = control.matches(of: #/=(\d+)/#).compactMap { Int($0.output.1) }
            #expect(ages.allSatisfy { $0 <= 10 }, "\(control)")
        }
    }

    // MARK: - Failures

    @Test func aFailureIsAProblemOrTheFallback() async throws {
        let renderer = Renderer(.failure(.failed(ImagePipeline.Error(.notFound, "10.1.2.3 does not have it"))))
        var configuration = try Self.unsignedConfiguration()
        try await serve(configuration, renderer) { (port) async throws in
            let answer = try await Self.ask(port, Self.unsigned)
            #expect(answer.status == 404 && answer.field("Cache-Control") == "no-store")
            #expect(try answer.detail() == "The origin does not have the image (not_found).")
        }
        configuration.fallback = try FallbackImage(TestImage.quarters(width: 2, height: 2))
        let withFallback = configuration
        try await serve(withFallback, renderer) { (port) async throws in
            let answer = try await Self.ask(port, Self.unsigned, ["--head"])
            #expect(answer.status == 404 && answer.field("Content-Type") == "image/png")
            // It does not hide a wrong URL.
            #expect(try await Self.ask(port, "unsafe/w:wide/plain/a").field("Content-Type")?.contains("json") == true)
        }
    }

    @Test func noFallbackHidesThatTheWorkersAreAway() async throws {
        var configuration = try Self.unsignedConfiguration()
        configuration.fallback = try FallbackImage(TestImage.quarters(width: 2, height: 2))
        let withFallback = configuration
        for (error, status, words) in [
            (.unavailable("No worker is signed on to the queue."), 503, "No worker is signed on"),
            (.overdue, 504, "No worker has made the image in time"),
        ] as [(RenditionError, Int, String)] {
            try await serve(withFallback, Renderer(.failure(error))) { (port) async throws in
                let answer = try await Self.ask(port, Self.unsigned)
                #expect(answer.status == status && answer.field("Retry-After") == "1")
                #expect(try answer.detail().contains(words))
            }
        }
    }

    /// Fault: a server counted nothing of its images but the requests.
    @Test func bytesAndRefusalsCount() async throws {
        let registry = PrometheusRegistry(ImageMetrics.descriptions)
        var configuration = try Self.unsignedConfiguration()
        // Ten requests at once, and no further one for long.
        configuration.rate = ClientRate(rate: 0.01)
        try await serve(configuration, metrics: ImageMetrics(registry)) { (port) async throws in
            for _ in 0..<8 { #expect(try await Self.ask(port, Self.unsigned).status == 200) }
            #expect(try await Self.ask(port, Self.unsigned, Self.header("Range: bytes=0-2")).status == 206)
            #expect(try await Self.ask(port, Self.unsigned, ["--head"]).status == 200)
            for _ in 0..<2 { #expect(try await Self.ask(port, Self.unsigned).status == 429) }
        }
        try await serve(try Self.unsignedConfiguration(), isReady: false, metrics: ImageMetrics(registry)) {
            (port) async throws in
            #expect(try await Self.ask(port, Self.unsigned).status == 503)
        }
        let text = PrometheusText.encode(registry.snapshot())
        #expect(text.contains("\nmegaton_image_bytes_total 83\n"), "\(text)")
        #expect(text.contains("\n" + #"megaton_image_refusals_total{reason="rate"} 2"# + "\n"), "\(text)")
        #expect(text.contains("\n" + #"megaton_image_refusals_total{reason="start"} 1"# + "\n"), "\(text)")
    }

    @Test func tooManyRequestsAreRefusedEarly() async throws {
        var configuration = try Self.unsignedConfiguration()
        configuration.rate = ClientRate(rate: 0.01)
        let limited = configuration
        try await serve(limited) { (port) async throws in
            for _ in 0..<10 { #expect(try await Self.ask(port, Self.unsigned).status == 200) }
            // The header of a proxy that is not trusted changes nothing.
            let refused = try await Self.ask(port, Self.unsigned, Self.header("X-Forwarded-For: 192.0.2.1"))
            #expect(refused.status == 429)
            let delay = try #require(refused.field("Retry-After").flatMap { Int($0) })
            #expect((1...100).contains(delay))
        }
        var full = try Self.unsignedConfiguration()
        full.limit = 0
        let none = full
        try await serve(none) { (port) async throws in
            let refused = try await Self.ask(port, Self.unsigned)
            #expect(refused.status == 503 && refused.field("Retry-After") != nil)
        }
        try await serve(try Self.unsignedConfiguration(), isReady: false) { (port) async throws in
            #expect(try await Self.ask(port, Self.unsigned).status == 503)
        }
    }
}
