import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Runs the code of the article Processors.
@Suite(.timeLimit(.minutes(2))) struct ProcessorArticleTests {
    /// A gray image of 4 x 2 pixels, all of value 200.
    private let picture = ImageRequest(id: "grey") {
        let image = PlatformImage(width: 4, height: 2, bands: 1, pixels: Data(repeating: 200, count: 8))
        return ImageContainer(image: try #require(image))
    }

    @Test func processorsOfARequest() async throws {
        let file = TestImage.quarters(width: 640, height: 480)
        var request = ImageRequest(id: "file", data: { file })
        request.processors = [.resize(width: 320), .crop(size: PixelSize(width: 320, height: 200)), .sharpen()]
        #expect(try await ImagePipeline().image(for: request).size == PixelSize(width: 320, height: 200))
    }

    @Test func oneOfItsOwn() async throws {
        var request = picture
        request.processors = [Darken(divisor: 2)]
        #expect(try await ImagePipeline().image(for: request).pixels() == Data(repeating: 100, count: 8))
        let clear = try #require(PlatformImage(width: 1, height: 1, bands: 4, pixels: Data([40, 20, 10, 60])))
        #expect(Darken(divisor: 2).process(clear)?.pixels() == Data([20, 10, 5, 60]))
    }

    @Test func severalAsOne() async throws {
        var request = picture
        let dusk = ImageProcessors.Composition([.resize(width: 2), Darken(divisor: 2), Darken(divisor: 5)])
        request.processors = [dusk]
        let image = try await ImagePipeline().image(for: request)
        #expect(image.size == PixelSize(width: 2, height: 1) && image.pixels() == Data(repeating: 20, count: 2))
    }

    @Test func aCustomDecoder() async throws {
        let registry = ImageDecoderRegistry()
        registry.register { $0.data.starts(with: Data("P6\n".utf8)) ? PPMDecoder() : nil }
        let pipeline = ImagePipeline {
            $0.makeImageDecoder = { registry.decoder(for: $0) }
        }

        let pixels = Data([10, 20, 30, 10, 50, 60])
        let file = Data("P6\n2 1\n255\n".utf8) + pixels
        let image = try await pipeline.image(for: ImageRequest(id: "ppm", data: { file }))
        #expect(image.pixels() == pixels)
        for text in ["P6\n", "P6\n2 1\n255\nabc", "P6\n9000 1\n255\n"] {
            let request = ImageRequest(id: text, data: { Data(text.utf8) })
            let error = await #expect(throws: ImagePipeline.Error.self) { try await pipeline.image(for: request) }
            #expect(error?.code == .corruptImage)
        }
        // All other bytes go to the default decoder.
        let png = TestImage.quarters(width: 4, height: 4)
        let other = try await pipeline.image(for: ImageRequest(id: "png", data: { png }))
        #expect(other.size == PixelSize(width: 4, height: 4))
    }

    // Renditions are made from the original: decoders, processors and image caches of the request or the delegate are
    // not used.
    @Test func renditionsAreMadeOfTheOriginal() async throws {
        let file = TestImage.quarters(width: 64, height: 48)
        let pipeline = ImagePipeline {
            $0.makeImageDecoder = { _ in nil }
        }
        var request = ImageRequest(id: "file", data: { file })
        request.processors = [.resize(width: 8)]
        request.thumbnail = ImageRequest.ThumbnailOptions(maxPixelSize: 4)
        #expect(try await pipeline.renditions([Rendition(width: 32)], for: request)[0].size.width == 32)
        let error = await #expect(throws: ImagePipeline.Error.self) {
            try await pipeline.renditions([Rendition(width: 2)], for: picture)
        }
        #expect(error?.code == .invalidURL)
    }
}
