import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Scaling in linear light: half of the intensity of white is 188 in sRGB (IEC 61966-2-1), and the mean of the samples
/// is 128.
@Suite(.timeLimit(.minutes(2))) struct LinearLightTests {
    /// Columns of two pixels that are black and white in turns.
    private static let stripes = TestImage.png(width: 128, height: 96) { x, _ in
        x / 2 % 2 == 0 ? (0, 0, 0, 255) : (255, 255, 255, 255)
    }

    private func scaled(_ data: Data, _ width: Int, _ isLinear: Bool, _ format: Rendition.Format = .png) throws
        -> PixelReader
    {
        var rendition = Rendition(width: width, format: format, quality: 95)
        rendition.linear = isLinear
        return try PixelReader(EffectFixture.render(rendition, data).data)
    }

    @Test(arguments: [Rendition.Format.png, .jpeg, .webp], [8, 16])
    func fineStripesKeepTheirBrightness(_ format: Rendition.Format, _ width: Int) throws {
        let source = try EffectFixture.render(
            {
                var whole = Rendition(width: 128, format: format, quality: 100)
                whole.lossless = format == .webp
                return whole
            }(),
            Self.stripes
        ).data
        for (isLinear, wanted) in [(false, 128), (true, 188)] {
            let pixels = try scaled(source, width, isLinear)
            let middle = Int(pixels.pixel(width / 2, pixels.height / 2)[0])
            #expect(abs(middle - wanted) <= 4, "\(format), \(isLinear): \(middle)")
        }
    }

    @Test func eachSizeOfAJobHasItsOwnLight() throws {
        var renditions = [32, 16, 8, 16].map { (width: Int) in Rendition(width: width, format: .png) }
        for index in 0..<3 { renditions[index].linear = true }
        let images = try EffectFixture.render(renditions, Self.stripes)
        for (image, wanted) in zip(images, [188, 188, 188, 128]) {
            let pixels = try PixelReader(image.data)
            let middle = Int(pixels.pixel(pixels.width / 2, pixels.height / 2)[0])
            #expect(abs(middle - wanted) <= 4, "\(pixels.width): \(middle)")
        }
    }

    /// Fault: white came out bluish, and red 48 values brighter.
    @Test func aProfileDoesNotChangeTheLight() throws {
        let plain = try TestSampling.s444.jpeg(64, 48) { x, y in (UInt8(x * 4), 60, UInt8(y * 5)) }
        let profile = Data(ProfileFitTests.sized(TestProfile.srgb))
        let profiled = TestJPEG.inserting(TestJPEG.profile(profile), into: plain)
        let (wanted, found) = (try scaled(plain, 16, true), try scaled(profiled, 16, true))
        for (x, y) in [(0, 0), (4, 3), (8, 6), (15, 11)] {
            #expect(near(found.pixel(x, y), wanted.pixel(x, y), by: 3), "\(x), \(y)")
        }
        let white = try TestSampling.s444.jpeg(64, 48) { _, _ in (255, 255, 255) }
        let pixels = try scaled(TestJPEG.inserting(TestJPEG.profile(profile), into: white), 16, true)
        #expect(near(pixels.pixel(8, 6), [255, 255, 255], by: 1))
    }

    /// Fault: libvips casts an alpha channel to 16 bits, so that an opaque image with a profile became transparent.
    @Test(arguments: [255, 128] as [UInt8]) func aProfileDoesNotChangeTheAlpha(_ alpha: UInt8) throws {
        var png = TestPNG(6, width: 64, height: 48)
        let profile = Data(ProfileFitTests.sized(TestProfile.srgb))
        png.chunks = [("iCCP", Data("name\0\0".utf8) + TestImage.zlib(profile))]
        let pixels = try scaled(png.data { _, _ in [200, 40, 90, Int(alpha)] }, 16, true)
        #expect(near(pixels.pixel(8, 6), [200, 40, 90, alpha], by: 2), "\(pixels.pixel(8, 6))")
    }

    @Test func plainColorsStayAsTheyAre() throws {
        let data = TestImage.png(width: 90, height: 60) { _, _ in (200, 40, 90, 255) }
        let pixels = try scaled(data, 30, true)
        #expect(near(pixels.pixel(15, 10), [200, 40, 90, 255]))
    }

    @Test func grayStaysGray() throws {
        let gray = try EffectFixture.render(EffectFixture.png(128, nil) { $0.grayscale = true }, Self.stripes).data
        #expect(try PixelReader(gray).bands == 2)
        let pixels = try scaled(gray, 16, true)
        #expect(pixels.bands == 2 && abs(Int(pixels.pixel(8, 6)[0]) - 188) <= 4)
    }

    @Test func colorsOfTransparentPixelsDoNotBleed() throws {
        let data = TestImage.png(width: 64, height: 64) { x, _ in x % 2 == 0 ? (0, 0, 255, 255) : (255, 0, 0, 0) }
        let pixel = try scaled(data, 16, true).pixel(8, 8)
        #expect(pixel[0] < 6 && pixel[2] > 249 && (120...136).contains(pixel[3]), "\(pixel)")
    }

    @Test func trimmedAndPaddedImagesAreScaledInLinearLight() throws {
        let data = TestImage.png(width: 160, height: 128) { x, y in
            guard (16..<144).contains(x), (16..<112).contains(y) else { return (90, 20, 20, 255) }
            return x / 2 % 2 == 0 ? (0, 0, 0, 255) : (255, 255, 255, 255)
        }
        var rendition = Rendition(width: 16, height: 16, fit: .contain, format: .png)
        (rendition.trim, rendition.linear, rendition.flatten) = (10, true, true)
        let pixels = try PixelReader(EffectFixture.render(rendition, data).data)
        #expect(near(pixels.pixel(8, 0), [255, 255, 255]), "the bar")
        #expect(abs(Int(pixels.pixel(8, 8)[0]) - 188) <= 4)
    }

    @Test func libvipsMakesThem() throws {
        let data = try TestSampling.s420.jpeg(320, 240) { x, _ in (UInt8(x % 256), 90, 90) }
        var rendition = Rendition(width: 32)
        #expect(try EffectFixture.render(rendition, data).maker == .planes)
        #expect(EngineForecast(rendition, of: data).engine == "planes")
        rendition.linear = true
        #expect(try EffectFixture.render(rendition, data).maker == .libvips)
        let forecast = EngineForecast(rendition, of: data)
        #expect(forecast.engine == "libvips" && forecast.reason == "linear light needs pixels")
    }

    @Test func aKeptProfileIsRefused() {
        var rendition = Rendition(width: 32, profile: .keep)
        #expect(rendition.validationError == nil)
        rendition.linear = true
        #expect(
            rendition.validationError
                == "linear does not go with profile keep: images are scaled in linear light for sRGB"
        )
    }
}
