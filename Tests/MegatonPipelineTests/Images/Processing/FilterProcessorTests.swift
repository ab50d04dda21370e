import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct FilterProcessorTests {
    private typealias GaussianBlur = ImageProcessors.GaussianBlur
    private typealias Sharpen = ImageProcessors.Sharpen
    private typealias Flatten = ImageProcessors.Flatten

    // MARK: - Blur

    // Zero and negative radius, from Nuke's GaussianBlurTests.
    @Test(arguments: [0, -1, -100]) func noRadiusIsNoBlur(_ radius: Int) throws {
        let image = try ProcessorFixture.map(9, 9)
        #expect(try ProcessorFixture.run(GaussianBlur(radius: radius), image) === image)
        #expect(GaussianBlur(radius: radius) == GaussianBlur(radius: 0))
    }

    @Test(arguments: 1...4) func aBlurKeepsSizeAndBands(_ bands: Int) throws {
        for (width, height) in [(1, 1), (3, 50), (64, 48)] {
            let image = try ProcessorFixture.scene(width, height, bands: bands)
            let result = try ProcessorFixture.run(GaussianBlur(), image)
            #expect(result.size == image.size)
            #expect(result.bands == bands)
        }
    }

    @Test func aBlurKeepsWhatIsEven() throws {
        for pixel: [UInt8] in [[80], [80, 90, 100], [80, 90, 100, 255], [200, 128]] {
            let result = try ProcessorFixture.run(GaussianBlur(radius: 5), ProcessorFixture.plain(30, 20, pixel))
            for (x, y) in [(0, 0), (29, 19), (15, 10)] { #expect(near(result.pixel(x, y), pixel, by: 1)) }
        }
    }

    @Test func anEdgeBecomesASlope() throws {
        let image = try ProcessorFixture.picture(80, 9, bands: 1) { x, _ in [x < 40 ? 0 : 255] }
        let row = try (0..<80).map { x in try ProcessorFixture.run(GaussianBlur(radius: 8), image).pixel(x, 4)[0] }
        #expect(row == row.sorted())
        #expect(near([row[39], row[40]], [124, 131], by: 8))
        // A Gaussian edge has 16 % left at one standard deviation.
        #expect(near([row[31]], [41], by: 14), "\(row)")
        #expect(row[5] < 3)
    }

    @Test func transparentPixelsDoNotBleed() throws {
        let image = try ProcessorFixture.picture(40, 9, bands: 4) { x, _ in
            x < 20 ? [255, 0, 0, 0] : [255, 255, 255, 255]
        }
        let result = try ProcessorFixture.run(GaussianBlur(radius: 4), image)
        let pixel = result.pixel(20, 4)
        #expect(near(Array(pixel[..<3]), [255, 255, 255], by: 3), "\(pixel)")
        #expect((100...180).contains(pixel[3]))
    }

    @Test func aRadiusHasALimit() throws {
        let image = try ProcessorFixture.map(8, 8)
        #expect(try ProcessorFixture.failure(GaussianBlur(radius: 250), image) == nil)
        #expect(try ProcessorFixture.failure(GaussianBlur(radius: 251), image) == .processingFailed)
        #expect(try ProcessorFixture.failure(GaussianBlur(radius: .max), image) == .processingFailed)
    }

    // MARK: - Sharpen

    @Test(arguments: 1...4) func sharpenKeepsSizeBandsAndAlpha(_ bands: Int) throws {
        for (width, height) in [(1, 1), (31, 17)] {
            let image = try ProcessorFixture.scene(width, height, bands: bands)
            let result = try ProcessorFixture.run(Sharpen(sigma: 1), image)
            #expect(result.size == image.size)
            #expect(result.bands == bands)
            if result.hasAlpha {
                #expect(result.pixel(width - 1, 0).last == image.pixel(width - 1, 0).last)
            }
        }
    }

    @Test func sharpenSteepensAnEdge() throws {
        let image = try ProcessorFixture.picture(40, 9) { x, _ in x < 20 ? [100, 100, 100] : [160, 160, 160] }
        let result = try ProcessorFixture.run(Sharpen(sigma: 1, flat: 0, jagged: 3), image)
        #expect(result.pixel(19, 4)[0] < 97)
        #expect(result.pixel(20, 4)[0] > 163)
        #expect(near(result.pixel(3, 4), [100, 100, 100]))
    }

    @Test func sharpenHasLimits() throws {
        let image = try ProcessorFixture.map(8, 8)
        for sharpen in [
            Sharpen(sigma: 0), Sharpen(sigma: 10.1), Sharpen(sigma: .nan), Sharpen(flat: -1),
            Sharpen(jagged: .infinity),
        ] {
            #expect(try ProcessorFixture.failure(sharpen, image) == .processingFailed)
        }
    }

    // MARK: - Flatten

    @Test func flattenPutsOnAColour() throws {
        let blue = Color(red: 0, green: 0, blue: 255)
        let half = try ProcessorFixture.plain(5, 3, [255, 0, 0, 128])
        let flat = try ProcessorFixture.run(Flatten(background: blue), half)
        #expect(flat.bands == 3)
        #expect(near(flat.pixel(4, 2), [128, 0, 127]))
        #expect(near(try ProcessorFixture.run(Flatten(), half).pixel(0, 0), [255, 127, 127]))
        let grey = try ProcessorFixture.plain(1, 1, [100, 0])
        #expect(try ProcessorFixture.run(Flatten(), grey).pixel(0, 0) == [255])
        #expect(try ProcessorFixture.run(Flatten(background: blue), grey).pixel(0, 0) == [0, 0, 255])
        let opaque = try ProcessorFixture.map(4, 4)
        #expect(try ProcessorFixture.run(Flatten(), opaque) === opaque)
    }
}
