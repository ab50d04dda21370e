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
}
