import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// What an error knows beside its message.
@Suite(.timeLimit(.minutes(2))) struct ErrorContextTests {
    private func failures(_ pipeline: ImagePipeline, _ request: ImageRequest) async -> [ImagePipeline.Error?] {
        [
            await TestPipeline.failure { try await pipeline.image(for: request) },
            await TestPipeline.failure { try await pipeline.data(for: request) },
            await TestPipeline.failure { try await pipeline.renditions([Rendition(width: 4)], for: request) },
        ]
    }

    /// A refusal comes before anything is loaded, and says all the same what was refused.
    @Test(arguments: ["gopher://example.com/a", "http://other.example/a", "file:///etc/passwd"])
    func aRefusalSaysWhatWasRefused(_ url: String) async throws {
        let rule = try SourceRule("example.com")
        let pipeline = TestPipeline.make(HeldLoader()) { $0.urlPolicy.sources = [rule] }
        for error in await failures(pipeline, ImageRequest(url: URL(string: "\(url)?token=1"))) {
            #expect(error?.code == .forbidden && error?.stage == .load && error?.url == url, "\(error as Any)")
        }
    }

    /// A page in place of a picture is told by its type.
    @Test func whatIsNoPictureHasTheTypeThatTheOriginGave() async throws {
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

    private struct NoBytes: ImageEncoding {
        func encode(_ image: PlatformImage) -> Data? { nil }
    }

    /// What libvips says, what is wrong with the options, and that there is nothing to be said.
    @Test(arguments: [
        (ImageEncoders.Vips(format: .webp) as any ImageEncoding, 16_384, "webp cannot be written"),
        (ImageEncoders.Vips(format: .jpeg, quality: 101), 8, "quality is 1 to 100"),
        (ImageEncoders.Default(quality: 0), 8, "quality is 1 to 100"), (NoBytes(), 8, "no bytes"),
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
