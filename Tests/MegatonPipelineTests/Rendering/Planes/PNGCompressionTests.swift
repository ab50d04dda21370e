import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// PNGs that libdeflate has compressed are those of libvips in fewer bytes.
@Suite(.timeLimit(.minutes(2))) struct PNGCompressionTests {
    private func png(_ image: PlatformImage, _ rendition: Rendition) throws -> Data {
        try VipsEngine().encode(image, rendition, RenderDeadline(.now + .seconds(60)))
    }

    @Test(arguments: 1...4, [nil, 0, 6, 7, 8, 9]) func pixelsStayTheSame(_ bands: Int, _ effort: Int?) throws {
        var random = SeededGenerator(seed: 5)
        let pixels = Data(
            (0..<(61 * 43 * bands)).map { UInt8($0 / 97 % 200) + UInt8.random(in: 0...9, using: &random) }
        )
        let image = try #require(PlatformImage(width: 61, height: 43, bands: bands, pixels: pixels))
        let data = try png(image, Rendition(format: .png, effort: effort))
        let read = try PixelReader(data)
        #expect(read.width == 61 && read.height == 43 && read.bands == bands)
        for y in 0..<43 {
            for x in 0..<61 {
                let start = (y * 61 + x) * bands
                #expect(read.pixel(x, y) == Array(pixels[start..<(start + bands)]))
            }
        }
    }

    @Test func effortsHaveFewerBytes() throws {
        let image = try TestPicture.gradient(400, 300)
        let sizes = try [0, 6, 7, 9].map { try png(image, Rendition(format: .png, effort: $0)).count }
        #expect(sizes[0] > 400 * 300 * 3)
        #expect(sizes[1] < sizes[0] / 4 && sizes[2] <= sizes[1] && sizes[3] <= sizes[2], "\(sizes)")
    }

    @Test func theProfileAndTheMetadataStay() throws {
        let source = try TestPicture.jpeg(64, 64)
        let named = TestEXIF.jpeg(source, texts: [0x8298: "the owner"])
        let rendition = Rendition(width: 32, format: .png, keepMetadata: .copyright)
        let data = try DamageTests.render(named, rendition, .auto).data
        #expect(data.range(of: Data("the owner".utf8)) != nil)
    }

    @Test func whatIsNoPNGIsLeftAlone() throws {
        let data = try png(TestPicture.gradient(30, 20), Rendition(format: .png, effort: 0))
        #expect(PNGCompression.compressed(data, effort: 6) != nil)
        for bad in [Data(), data.prefix(8), data.prefix(40), data.prefix(data.count - 30)] {
            #expect(PNGCompression.compressed(Data(bad), effort: 6) == nil)
        }
    }
}
