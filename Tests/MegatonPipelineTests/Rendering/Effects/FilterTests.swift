import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Blur, sharpening, removal of colors, padding and backgrounds of renditions.
@Suite(.timeLimit(.minutes(2))) struct FilterTests {
    /// Black on the left and white on the right.
    private static let edge = TestImage.png(width: 40, height: 20) { x, _ in
        x < 20 ? (0, 0, 0, 255) : (255, 255, 255, 255)
    }

    private func pixels(_ data: Data, _ width: Int, _ height: Int, _ change: (inout Rendition) -> Void) throws
        -> PixelReader
    {
        try PixelReader(EffectFixture.render(EffectFixture.png(width, height, change), data).data)
    }

    @Test func aBlurSoftensEdgesAndKeepsPlainAreas() throws {
        let blurred = try pixels(Self.edge, 40, 20) { $0.blur = 3 }
        #expect(blurred.width == 40 && blurred.height == 20)
        #expect(blurred.pixel(0, 10)[0] < 3 && blurred.pixel(39, 10)[0] > 252)
        let row = (0..<40).map { blurred.pixel($0, 10)[0] }
        #expect(row == row.sorted() && (60...127).contains(row[18]) && (128...195).contains(row[21]))
        #expect(blurred.pixel(20, 0) == blurred.pixel(20, 19), "edges are extended")
    }

    /// Fault: it was 0.8 of the sigma, and nothing below 0.56.
    @Test(arguments: [0.5, 1, 2, 5, 20]) func aBlurHasItsSigma(_ sigma: Double) throws {
        let data = TestImage.png(width: 200, height: 8) { x, _ in x < 100 ? (0, 0, 0, 255) : (255, 255, 255, 255) }
        let blurred = try pixels(data, 200, 8) { $0.blur = sigma }
        let row = (0..<200).map { Double(blurred.pixel($0, 4)[0]) }
        let steps = (1..<200).map { (place: Double($0), weight: row[$0] - row[$0 - 1]) }
        let sum = steps.reduce(0) { $0 + $1.weight }
        let mean = steps.reduce(0) { $0 + $1.place * $1.weight } / sum
        let variance = steps.reduce(0) { $0 + ($1.place - mean) * ($1.place - mean) * $1.weight } / sum
        #expect(abs(variance.squareRoot() - sigma) < 0.1 * sigma, "\(variance.squareRoot())")
    }

    @Test func colorsOfTransparentPixelsDoNotBleed() throws {
        let data = TestImage.png(width: 20, height: 20) { x, _ in x < 10 ? (0, 0, 255, 255) : (255, 0, 0, 0) }
        let blurred = try pixels(data, 20, 20) { $0.blur = 2 }
        for x in 0..<12 {
            let pixel = blurred.pixel(x, 10)
            #expect(pixel[0] < 4 && pixel[2] > 250, "\(x): \(pixel)")
        }
        #expect((60...195).contains(blurred.pixel(10, 10)[3]))
    }

    @Test func sharpeningRaisesContrastAtEdges() throws {
        let data = TestImage.png(width: 40, height: 20) { x, _ in x < 20 ? (90, 90, 90, 255) : (160, 160, 160, 255) }
        let sharp = try pixels(data, 40, 20) { $0.sharpen = 2 }
        #expect(sharp.pixel(19, 10)[0] < 88 && sharp.pixel(20, 10)[0] > 162)
        #expect(near(sharp.pixel(2, 10), [90, 90, 90, 255]) && near(sharp.pixel(37, 10), [160, 160, 160, 255]))
    }

    @Test func grayHasNoColorsAndKeepsTransparency() throws {
        let data = TestImage.png(width: 4, height: 1) { x, _ in
            [(255, 0, 0, 255), (0, 255, 0, 255), (128, 128, 128, 255), (0, 0, 255, 100)][x]
        }
        let gray = try pixels(data, 4, 1) { $0.grayscale = true }
        #expect(gray.bands == 2)
        let values = (0..<4).map { gray.pixel($0, 0)[0] }
        #expect(values[1] > values[0] && values[0] > values[3], "green is lighter than red, and red than blue")
        #expect(abs(Int(values[2]) - 128) <= 1 && gray.pixel(3, 0)[1] == 100)
    }

    /// `bg` of imgproxy, which had no effect in these formats.
    @Test(arguments: [Rendition.Format.png, .webp]) func flatteningFillsTransparentPixels(_ format: Rendition.Format)
        throws
    {
        let data = TestImage.png(width: 20, height: 10) { x, _ in x < 10 ? (255, 0, 0, 0) : (0, 0, 255, 255) }
        var rendition = Rendition(width: 20, height: 20, fit: .contain, format: format)
        (rendition.lossless, rendition.background) = (format == .webp, Color(red: 200, green: 40, blue: 90))
        rendition.padding = Rendition.Padding(2)
        let transparent = try PixelReader(EffectFixture.render(rendition, data).data)
        #expect(transparent.bands == 4 && transparent.pixel(0, 0)[3] == 0 && transparent.pixel(5, 12)[3] == 0)
        rendition.flatten = true
        let filled = try PixelReader(EffectFixture.render(rendition, data).data)
        #expect(filled.bands == 3 && filled.width == 24 && filled.height == 24)
        // The padding, a bar and a transparent pixel.
        for (x, y) in [(0, 0), (12, 4), (5, 12)] { #expect(near(filled.pixel(x, y), [200, 40, 90]), "\(x) \(y)") }
        #expect(near(filled.pixel(18, 12), [0, 0, 255]))
    }

    // MARK: - Padding

    @Test func paddingIsOutsideOfTheSize() throws {
        let source = try TestSampling.s444.jpeg(40, 20) { _, _ in (90, 90, 90) }
        let rendition = EffectFixture.png(20, 10) { rendition in
            rendition.background = Color(red: 255, green: 0, blue: 255)
            rendition.padding = Rendition.Padding(top: 1, right: 2, bottom: 3, left: 4)
        }
        let image = try EffectFixture.render(rendition, source)
        #expect(image.size == PixelSize(width: 26, height: 14))
        let reader = try PixelReader(image.data)
        for y in 0..<14 {
            for x in 0..<26 {
                let isWithin = (4..<24).contains(x) && (1..<11).contains(y)
                #expect(near(reader.pixel(x, y), isWithin ? [90, 90, 90] : [255, 0, 255], by: 3), "\(x) \(y)")
            }
        }
        let opaque = try pixels(Self.edge, 40, 20) { $0.padding = Rendition.Padding(5) }
        #expect(opaque.pixel(4, 10)[3] == 0 && opaque.pixel(5, 10)[3] == 255, "the PNG stays transparent")
    }

    @Test func theResultWithItsPaddingHasTheLimits() throws {
        let source = TestImage.quarters(width: 40, height: 40)
        var limits = RenderLimits()
        limits.outputSide = 45
        let fits = EffectFixture.png(35, 35) { $0.padding = Rendition.Padding(5) }
        #expect(try EffectFixture.render(fits, source, limits: limits).size == PixelSize(width: 45, height: 45))
        let exceeds = EffectFixture.png(36, 36) { $0.padding = Rendition.Padding(5) }
        #expect(throws: ImageError(.outputTooLarge, "")) { try EffectFixture.render(exceeds, source, limits: limits) }
    }

    /// Fault: the bars of `contain` around a gray source were gray, whatever the background was.
    @Test(arguments: Rendition.Fit.allCases) func theBackgroundHasItsColorWithEachFit(_ fit: Rendition.Fit) throws {
        let gray = try TestPicture.plain(40, 20, [100, 0])
        let stop = RenderDeadline(.now + .seconds(60))
        let data = try VipsEngine().encode(gray, Rendition(format: .png), stop)
        var rendition = Rendition(width: 16, height: 16, fit: fit, format: .jpeg, quality: 95)
        rendition.background = Color(red: 200, green: 40, blue: 90)
        rendition.padding = Rendition.Padding(2)
        rendition.chroma = .s444
        let reader = try PixelReader(EffectFixture.render(rendition, data).data)
        for (x, y) in [(0, 0), (reader.width / 2, reader.height / 2), (reader.width - 1, 3)] {
            #expect(near(reader.pixel(x, y), [200, 40, 90], by: 6), "\(fit) \(x) \(y): \(reader.pixel(x, y))")
        }
    }

    // MARK: - Sources

    @Test func everyEffectWorksOnTheSmallestImage() throws {
        let data = TestImage.png(width: 1, height: 1) { _, _ in (10, 200, 30, 255) }
        var rendition = EffectFixture.png(1, 1) { rendition in
            (rendition.trim, rendition.rotate, rendition.flip) = (10, .quarter, .both)
            (rendition.blur, rendition.sharpen, rendition.grayscale) = (100, 10, true)
            rendition.padding = Rendition.Padding(top: 0, right: 0, bottom: 0, left: 1)
            rendition.watermark = Rendition.Watermark(.text("©"), scale: 1)
        }
        #expect(try EffectFixture.render(rendition, data).size == PixelSize(width: 2, height: 1))
        (rendition.watermark, rendition.padding, rendition.grayscale) = (nil, nil, false)
        let pixel = try PixelReader(EffectFixture.render(rendition, data).data).pixel(0, 0)
        #expect(near(pixel, [10, 200, 30, 255], by: 3), "\(pixel)")
    }

    @Test func framesAreFilteredOneByOne() throws {
        let data = try TestPicture.animation(16, 8, frames: 3, as: .gif)
        var rendition = Rendition(width: 16, height: 8, format: .webp, lossless: true, animated: true)
        (rendition.blur, rendition.sharpen, rendition.padding) = (4, 1, Rendition.Padding(2))
        rendition.background = .black
        let result = try EffectFixture.render(rendition, data)
        #expect(result.size == PixelSize(width: 20, height: 12))
        let frames = try PixelReader(result.data, options: "n=-1")
        #expect(frames.height == 36)
        for frame in 0..<3 {
            // No frame takes anything from its neighbors, which are darker and lighter.
            for y in [2, 5, 9] {
                let gray = [UInt8](repeating: UInt8(frame * 10), count: 3)
                let pixel = Array(frames.pixel(10, frame * 12 + y).prefix(3))
                #expect(near(pixel, gray, by: 3), "frame \(frame), row \(y): \(pixel)")
            }
        }
    }

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS")) func inkBecomesColor() throws {
        let data = try Corpus.data("edge/sharp/Channel_digital_image_CMYK_color.jpg")
        var rendition = Rendition(width: 64, format: .jpeg)
        (rendition.trim, rendition.rotate, rendition.blur, rendition.sharpen) = (10, .quarter, 1, 0.5)
        (rendition.padding, rendition.watermark) = (Rendition.Padding(4), Rendition.Watermark(.text("ink"), scale: 0.5))
        let image = try EffectFixture.render(rendition, data)
        #expect(image.size.width == 72)
        #expect(try PixelReader(image.data).bands == 3)
        rendition.grayscale = true
        #expect(try EffectFixture.render(rendition, data).size == image.size)
    }

    /// Each of these options makes libvips render a JPEG that planes would render otherwise.
    @Test func planesLeaveEffectsToLibvips() throws {
        let data = try TestSampling.s420.jpeg(120, 90) { x, y in (UInt8(2 * x), UInt8(2 * y), 90) }
        #expect(try EffectFixture.render(Rendition(width: 40), data).maker == .planes)
        let changes: [(inout Rendition) -> Void] = [
            { $0.trim = 10 }, { $0.rotate = .half }, { $0.flip = .vertical }, { $0.blur = 1 }, { $0.sharpen = 1 },
            { $0.grayscale = true }, { $0.padding = .init(1) }, { $0.watermark = .init(.text("a")) },
        ]
        for (index, change) in changes.enumerated() {
            var rendition = Rendition(width: 40)
            change(&rendition)
            #expect(try EffectFixture.render(rendition, data).maker == .libvips, "change \(index)")
        }
    }

    /// Fault: chroma of such a result is made for two pixels, and the scaler refused a part as long as that.
    @Test(arguments: [(400, 8), (8, 400)], [Rendition.Format.jpeg, .webp]) func aResultOfOnePixelIsMadeFromPlanes(
        _ size: (Int, Int),
        _ format: Rendition.Format
    ) throws {
        let data = try TestSampling.s420.jpeg(size.0, size.1) { x, y in (UInt8(x / 2), UInt8(y / 2), 90) }
        let made = try EffectFixture.render(Rendition(width: 40, height: 40, format: format), data)
        #expect(made.maker == .planes && min(made.size.width, made.size.height) == 1, "\(made.size)")
    }

    @Test func effectsCostMemory() throws {
        let probe = try VipsEngine().probe(TestImage.quarters(width: 400, height: 400), type: .png)
        let plain = RenderPlan(probe, [Rendition(width: 200, height: 200, format: .png)]).cost.bytes
        let changes: [(inout Rendition) -> Void] = [
            { $0.trim = 10 }, { $0.blur = 1 }, { $0.padding = .init(50) }, { $0.watermark = .init(.text("a")) },
            { $0.maxBytes = 100_000 }, { $0.rotate = .quarter }, { $0.targetScore = 70 },
        ]
        for (index, change) in changes.enumerated() {
            var rendition = Rendition(width: 200, height: 200, format: .png)
            change(&rendition)
            #expect(RenderPlan(probe, [rendition]).cost.bytes > plain, "change \(index)")
        }
        var trimmed = Rendition(width: 200, height: 200, format: .png)
        trimmed.trim = 10
        #expect(RenderPlan(probe, [trimmed]).cost.bytes > 400 * 400 * 4, "the whole source is in memory")
    }
}
