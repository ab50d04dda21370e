import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Properties of an error besides its message.
@Suite(.timeLimit(.minutes(2))) struct ErrorContextTests {
    private func failures(_ pipeline: ImagePipeline, _ request: ImageRequest) async -> [ImagePipeline.Error?] {
        [
            await TestPipeline.failure { try await pipeline.image(for: request) },
            await TestPipeline.failure { try await pipeline.data(for: request) },
            await TestPipeline.failure { try await pipeline.renditions([Rendition(width: 4)], for: request) },
        ]
    }

    /// A refusal comes before anything is loaded, and still has the stage and URL of the request.
    @Test(arguments: ["gopher://example.com/a", "http://other.example/a", "file:///etc/passwd"])
    func aRefusalSaysWhatWasRefused(_ url: String) async throws {
        let rule = try SourceRule("example.com")
        let pipeline = TestPipeline.make(HeldLoader()) { $0.urlPolicy.sources = [rule] }
        for error in await failures(pipeline, ImageRequest(url: URL(string: "\(url)?token=1"))) {
            #expect(error?.code == .forbidden && error?.stage == .load && error?.url == url, "\(error as Any)")
        }
    }

    /// A page in place of an image is identified by its type.
    @Test func aPageInPlaceOfAnImageHasTheTypeThatTheOriginGave() async throws {
        let type = "text/html; charset=utf-8"
        try await OriginServer.run(responding: { _ in
            .init(headers: [("Content-Type", type)], body: Data("<html></html>".utf8))
        }) { (origin) async throws in
            let pipeline = TestPipeline.make(DataLoader.local { _ in })
            let request = ImageRequest(url: origin.url("/a"))
            let image = await TestPipeline.failure { try await pipeline.image(for: request) }
            let rendition = await TestPipeline.failure {
                try await pipeline.renditions([Rendition(width: 4)], for: request)
            }
            for error in [image, rendition] {
                #expect(error?.code == .unsupportedFormat && error?.contentType == type, "\(error as Any)")
                #expect(error?.stage == .decode && error?.url == origin.url("/a").absoluteString)
            }
        }
    }

    /// Neither a custom loader nor the limit on bytes knows of the pipeline, which adds the context.
    @Test(arguments: [1000, 4]) func anInterruptedLoadHasTheBytesReceived(_ limit: Int) async throws {
        struct Torn: Error {}
        let answer = ScriptedLoader.Answer(
            chunks: [Data("<html></html>".utf8)],
            headers: ["Content-Type": "text/html"],
            error: Torn()
        )
        let pipeline = TestPipeline.make(ScriptedLoader([answer])) {
            $0.maximumDataSize = limit
            $0.isResumableDataEnabled = false
        }
        let url = TestPipeline.url("a?token=secret")
        for error in await failures(pipeline, ImageRequest(url: url)) {
            #expect(error?.code == (limit > 4 ? .dataLoadingFailed : .dataTooLarge))
            #expect(error?.stage == .load && error?.url == TestPipeline.url.absoluteString, "\(error as Any)")
            #expect(error?.status == 200 && error?.contentType == "text/html", "\(error as Any)")
            #expect(error?.excerpt == "\"<html></html>\"", "\(error as Any)")
        }
    }

    @Test func localSourcesThatAreTooLargeSayWhere() async throws {
        let directory = try TestDirectory()
        let file = URL(fileURLWithPath: try directory.write(Data(count: 50), to: "a.bin"))
        let pipeline = TestPipeline.make(HeldLoader()) {
            $0.maximumDataSize = 49
            $0.fileAccess = FileAccess(roots: [directory.path])
        }
        for error in await failures(pipeline, ImageRequest(url: file)) {
            #expect(error?.code == .dataTooLarge && error?.stage == .load && error?.url == file.absoluteString)
        }
        for error in await failures(pipeline, ImageRequest(id: "closure", data: { Data(count: 50) })) {
            #expect(error?.code == .dataTooLarge && error?.stage == .load && error?.url == nil, "\(error as Any)")
        }
    }

    /// Damage, and the pixel limit; the first bytes identify the type of the image.
    @Test(arguments: [true, false]) func aBadImageHasItsType(isWhole: Bool) async throws {
        let picture = isWhole ? TestPipeline.png : TestPipeline.png.prefix(40)
        let answer = ScriptedLoader.Answer(chunks: [picture], headers: ["Content-Type": "image/png"])
        let pipeline = TestPipeline.make(ScriptedLoader([answer])) { $0.renderLimits.pixels = 100 }
        let request = ImageRequest(url: TestPipeline.url("a?token=secret"))
        let image = await TestPipeline.failure { try await pipeline.image(for: request) }
        let rendition = await TestPipeline.failure {
            try await pipeline.renditions([Rendition(width: 4)], for: request)
        }
        for error in [image, rendition] {
            #expect(error?.code == (isWhole ? .imageTooLarge : .corruptImage), "\(error as Any)")
            #expect(error?.stage == .decode && error?.url == TestPipeline.url.absoluteString, "\(error as Any)")
            #expect(error?.status == 200 && error?.contentType == "image/png", "\(error as Any)")
            #expect(error?.excerpt?.hasPrefix("89 50 4e 47") == true, "\(error as Any)")
        }
    }

    /// A cached entry keeps the content type that the origin sent.
    @Test func aCachedEntryHasItsTypeToo() async throws {
        let cache = MemoryDataCache()
        let answer = ScriptedLoader.Answer(
            chunks: [TestPipeline.png],
            headers: ["Content-Type": "image/x-png", "Cache-Control": "max-age=60"]
        )
        let request = ImageRequest(url: TestPipeline.url)
        _ = try await TestPipeline.make(ScriptedLoader([answer])) { $0.dataCache = cache }.data(for: request)
        let strict = TestPipeline.make(HeldLoader()) {
            $0.dataCache = cache
            $0.renderLimits.pixels = 100
        }
        let error = await TestPipeline.failure { try await strict.renditions([Rendition(width: 4)], for: request) }
        #expect(error?.code == .imageTooLarge && error?.contentType == "image/x-png" && error?.status == nil)
        // Fault: the limit of one pipeline removed the entry that others use.
        let cached = ImageRequest(url: TestPipeline.url, options: .returnCacheDataDontLoad)
        #expect(await TestPipeline.failure { try await strict.image(for: cached) }?.code == .imageTooLarge)
        let usual = TestPipeline.make(HeldLoader()) { $0.dataCache = cache }
        #expect(await TestPipeline.failure { try await usual.image(for: cached) } == nil)
    }

    /// An error page is quoted with the request's query removed.
    @Test func anErrorPageIsQuotedWithoutTheQuery() async throws {
        try await OriginServer.run(responding: { _ in
            .init(status: 403, headers: [("Content-Type", "text/plain")], body: Data("No: /a?key=secret\nBye.".utf8))
        }) { (origin) async throws in
            let pipeline = TestPipeline.make(DataLoader.local { _ in })
            for error in await failures(pipeline, ImageRequest(url: origin.url("/a?key=secret"))) {
                #expect(error?.code == .accessDenied && error?.status == 403 && error?.contentType == "text/plain")
                #expect(error?.excerpt == "\"No: /a?… Bye.\"", "\(error as Any)")
            }
        }
    }

    @Test func anExcerptIsShortAndWithoutSecrets() {
        let texts = [
            "<?xml version=\"1.0\" encoding": "\"<?xml version=\"1.0\" enco\"",
            "see http://user:secret@host/a?secret": "\"see http://host/a?…\"",
            "\u{FEFF}Größe: /ä?key=s": "\"\u{FEFF}Größe: /ä?…\"",
            String(repeating: "a", count: 1000): "\"" + String(repeating: "a", count: 24) + "\"",
        ]
        for (text, excerpt) in texts { #expect(Excerpt.of(Data(text.utf8)) == excerpt) }
        #expect(Excerpt.of(Data([0xFF, 0xD8, 0x00])) == "ff d8 00")
        #expect(Excerpt.of(Data("GIF89a\0\u{1}".utf8)) == "47 49 46 38 39 61 00 01")
    }

    /// A truncated body counts as no answer of the host, although its status was 200.
    @Test func aTruncatedBodyIsAFailureOfTheHost() {
        var error = ImagePipeline.Error(.incompleteBody, "…", status: 200)
        #expect(OriginOutcome(error) == .absent)
        error.code = .dataTooLarge
        #expect(OriginOutcome(error) == .answered)
    }

    private struct NoBytes: ImageEncoding {
        func encode(_ image: PlatformImage) -> Data? { nil }
    }

    /// A message from libvips, one about wrong options, and one about an empty result.
    @Test(arguments: [
        (ImageEncoders.Vips(format: .webp) as any ImageEncoding, 16_384, "webp cannot be written"),
        (ImageEncoders.Vips(format: .jpeg, quality: 101), 8, "allowed are 1 to 100"),
        (ImageEncoders.Default(quality: 0), 8, "allowed are 1 to 100"), (NoBytes(), 8, "no bytes"),
    ])
    func anImageThatCannotBeEncodedSaysWhy(_ encoder: any ImageEncoding, _ width: Int, _ why: String) async throws {
        let container = ImageContainer(image: try TestPicture.plain(width, 8, [200, 100, 50]))
        let pipeline = TestPipeline.make(HeldLoader()) {
            $0.dataCache = MemoryDataCache()
            $0.makeImageEncoder = { _ in encoder }
        }
        let error = await TestPipeline.failure {
            try await pipeline.cache.storeCachedImage(container, for: ImageRequest(url: TestPipeline.url))
        }
        #expect(error?.code == .encodingFailed && error?.message.contains(why) == true, "\(error as Any)")
        #expect(error?.stage == .encode && error?.url == TestPipeline.url.absoluteString)
    }
}
