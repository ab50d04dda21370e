import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// The processors that remove borders and colors.
@Suite(.timeLimit(.minutes(2))) struct TrimProcessorTests {
    private typealias Trim = ImageProcessors.Trim
    private typealias Grayscale = ImageProcessors.Grayscale

    /// A box from 3, 2 to 9, 6 on a border, for each number of bands.
    private static func framed(_ bands: Int) throws -> PlatformImage {
        try ProcessorFixture.picture(12, 10, bands: bands) { x, y in
            let isWithin = (3..<9).contains(x) && (2..<6).contains(y)
            let values: [UInt8] = isWithin ? [200, 90, 30] : [10, 10, 10]
            return Array(values.prefix(bands < 3 ? 1 : 3)) + (bands % 2 == 0 ? [255] : [])
        }
    }

    @Test(arguments: 1...4) func aBorderIsRemoved(_ bands: Int) throws {
        let result = try ProcessorFixture.run(Trim(), Self.framed(bands))
        #expect(result.size == PixelSize(width: 6, height: 4) && result.bands == bands)
        #expect(result.pixel(0, 0)[0] == 200 && result.pixel(5, 3)[0] == 200)
        let whole = try ProcessorFixture.run(Trim(tolerance: 255), Self.framed(bands))
        #expect(whole.size == PixelSize(width: 12, height: 10))
    }

    @Test func transparentPixelsAreAlike() throws {
        let image = try ProcessorFixture.picture(6, 6, bands: 4) { x, y in
            x == 4 && y == 1 ? [0, 0, 0, 255] : [UInt8(x * 40), UInt8(y * 40), 0, 0]
        }
        #expect(try ProcessorFixture.run(Trim(), image).size == PixelSize(width: 1, height: 1))
    }

    @Test func onePixelAndOneColorStay() throws {
        let pixel = try ProcessorFixture.plain(1, 1, [7, 7, 7])
        #expect(try ProcessorFixture.run(Trim(), pixel).size == pixel.size)
        let plain = try ProcessorFixture.plain(9, 4, [7, 7, 7])
        #expect(try ProcessorFixture.run(Trim(), plain).size == plain.size)
    }

    @Test func aToleranceThatIsNoneIsRefused() throws {
        for tolerance in [-1, 256, .min, .max] {
            #expect(try ProcessorFixture.failure(Trim(tolerance: tolerance), Self.framed(3)) == .processingFailed)
        }
    }

    @Test(arguments: 1...4) func colorsAreRemoved(_ bands: Int) throws {
        let image = try Self.framed(bands)
        let result = try ProcessorFixture.run(Grayscale(), image)
        #expect(result.size == image.size && result.bands == (image.hasAlpha ? 2 : 1))
        if bands <= 2 {
            #expect(result === image)
        } else {
            #expect(abs(Int(result.pixel(0, 0)[0]) - 10) <= 1, "gray keeps its lightness")
            #expect((91..<200).contains(result.pixel(4, 3)[0]))
        }
    }
}
