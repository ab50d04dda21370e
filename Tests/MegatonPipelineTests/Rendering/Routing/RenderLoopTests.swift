import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Benchmarks measure the same code that the pipeline runs.
@Suite struct RenderLoopTests {
    private let source = TestImage.quarters(width: 300, height: 200)

    @Test(arguments: [Rendition.Format.jpeg, .png, .webp])
    func theLoopMakesTheBytesOfThePipeline(_ format: Rendition.Format) async throws {
        let rendition = Rendition(width: 64, height: 64, format: format)
        let url = try #require(URL(string: "data:image/png;base64," + source.base64EncodedString()))
        let response = try await ImagePipeline().renditions([rendition], for: ImageRequest(url: url))
        #expect(try RenderLoop(rendition).render(source) == response[0].data)
    }

    @Test func theStagesLeadToAnImageOfTheSize() throws {
        let stages = try RenderStages(Rendition(width: 64, height: 64))
        let picture = try stages.resize(try stages.decode(source, try stages.header(source)))
        #expect(picture.size == PixelSize(width: 64, height: 43))
        for format in [Rendition.Format.jpeg, .webp] {
            let data = try stages.encode(picture, as: format)
            #expect(AssetType(data) == (format == .jpeg ? .jpeg : .webp))
        }
    }

    @Test func planesHaveTheirOwnStages() throws {
        let jpeg = try TestPicture.jpeg(300, 200)
        let stages = try RenderStages(Rendition(width: 64, height: 64))
        let result = try stages.resize(try stages.decode(jpeg, try stages.header(jpeg)))
        guard case .planes = result else {
            Issue.record("libvips made it")
            return
        }
        #expect(result.size == PixelSize(width: 64, height: 43))
        #expect(try stages.encode(result, as: .jpeg) == RenderLoop(Rendition(width: 64, height: 64)).render(jpeg))
        #expect(AssetType(try stages.encode(result, as: .webp)) == .webp)
        #expect(throws: ImagePipeline.Error.self) { try stages.encode(result, as: .png) }
    }

    @Test func bytesThatAreNoImageAreRefused() throws {
        let loop = try RenderLoop(Rendition(width: 64))
        #expect(throws: ImagePipeline.Error.self) { try loop.render(Data("no picture".utf8)) }
        #expect(throws: ImagePipeline.Error.self) { try RenderLoop(Rendition(width: 0)) }
    }
}
